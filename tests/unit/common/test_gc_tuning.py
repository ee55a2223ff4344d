"""The collector's settings: refused when wrong, applied once and whole, left alone when turned off."""

import gc
import weakref
from typing import Any

import pytest
from pydantic import ValidationError

from rollgym.common.gc_tuning import GcSettings, GcWatch, tune_gc


@pytest.mark.parametrize(
    "thresholds",
    [[0, 50, 100], [50_000, 0], [-1], [], [1, 2, 3, 4], "many", "[1, 2]", 5, [1.5], ["x"], {"a": 1}],
    ids=str,
)
def test_wrong_thresholds_are_refused(thresholds: Any) -> None:
    with pytest.raises(ValidationError):
        GcSettings(thresholds=thresholds)


@pytest.mark.parametrize("thresholds", [[1], [700, 10], [50_000, 50, 100], None], ids=str)
def test_one_to_three_positive_numbers_or_null_are_taken(thresholds: Any) -> None:
    found = GcSettings(thresholds=thresholds).thresholds
    assert found == (None if thresholds is None else tuple(thresholds))


def test_tuning_collects_then_freezes_then_sets_the_thresholds() -> None:
    class Ring:
        pass

    ring = Ring()
    ring.self = ring  # type: ignore[attr-defined]
    gone: list[bool] = []
    weakref.finalize(ring, gone.append, True)
    del ring
    state = tune_gc(GcSettings(freeze=True, thresholds=(40_000, 20, 30)))
    assert gone, "garbage was frozen instead of collected"
    assert gc.get_freeze_count() > 1000
    assert state.gc_frozen_objects > 1000
    assert state.gc_thresholds == gc.get_threshold() == (40_000, 20, 30)


@pytest.mark.parametrize("thresholds", [(30_000,), (30_000, 7)], ids=str)
def test_thresholds_that_are_not_given_stay(thresholds: tuple[int, ...]) -> None:
    before = gc.get_threshold()
    tune_gc(GcSettings(freeze=False, thresholds=thresholds))
    assert gc.get_threshold() == thresholds + before[len(thresholds) :]


def test_turned_off_it_leaves_the_collector_exactly_as_it_was() -> None:
    before = gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()
    tune_gc(GcSettings(freeze=False, thresholds=None))
    assert (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()) == before


def test_the_watch_counts_collections_by_generation_and_what_they_reclaimed() -> None:
    heard: list[tuple[int, float]] = []
    gc.collect()
    with GcWatch(on_pause=lambda generation, pause_s: heard.append((generation, pause_s))) as watch:
        rings: list[Any] = [[] for _ in range(100)]
        for ring in rings:
            ring.append(ring)
        del rings, ring
        gc.collect()
    assert watch.totals[2].collections == 1
    assert watch.totals[2].reclaimed >= 100
    assert watch.pause_max_s <= watch.pause_sum_s
    assert (2, watch.totals[2].pause_sum_s) in heard
    gc.collect()
    assert watch.totals[2].collections == 1, "it watches no longer"
