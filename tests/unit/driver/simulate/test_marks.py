"""The marks of a simulation: what must hold, by medians, with noise told from difference."""

import pytest

from rollgym.driver.simulate.figures import RunFigures
from rollgym.driver.simulate.marks import marks_of, median_of
from unit.driver.simulate.seen_runs import collected, figures


def _runs(name: str, *collections_and_pauses: tuple[int, float]) -> list[RunFigures]:
    return [
        figures(name, round=number, generations=collected(count, pause_ms))
        for number, (count, pause_ms) in enumerate(collections_and_pauses, 1)
    ]


def _missed(runs: list[RunFigures], *, retained: bool) -> list[str]:
    return [mark.what for mark in marks_of(runs, retained=retained) if not mark.holds]


def test_a_tuned_run_that_collects_and_pauses_little_hits_its_marks() -> None:
    runs = _runs("default", (800, 2400.0), (780, 2500.0)) + _runs("tuned", (30, 400.0), (31, 410.0))
    assert _missed(runs, retained=True) == []


def test_too_small_a_cut_is_a_miss() -> None:
    runs = _runs("default", (800, 2400.0)) + _runs("tuned", (100, 900.0))
    assert _missed(runs, retained=True) == [
        "tuned cuts collections at least 20 ×",
        "tuned cuts the sum of pauses at least 4 ×",
    ]


def test_without_retained_results_a_long_pause_of_default_is_a_miss() -> None:
    runs = [figures("default", generations=collected(3, 20.0, 16.0))]
    assert _missed(runs, retained=False) == ["without retained results even default pauses under 15 ms"]


@pytest.mark.parametrize(
    ("off", "missed"),
    [
        ([(790, 2300.0), (805, 2450.0)], []),
        ([(40, 2400.0), (41, 2400.0)], ["off collects as default does"]),
        ([(800, 400.0), (800, 410.0)], ["off pauses as default does, ms"]),
    ],
    ids=["noise", "collects less", "pauses less"],
)
def test_off_must_be_as_default(off: list[tuple[int, float]], missed: list[str]) -> None:
    runs = _runs("default", (800, 2400.0), (780, 2500.0)) + _runs("off", *off)
    assert _missed(runs, retained=True) == missed


def test_off_must_leave_the_collector_as_python_set_it() -> None:
    runs = [figures("default", gc_thresholds=(700, 10, 10)), figures("off", gc_thresholds=(700, 10, 10))]
    assert _missed(runs, retained=True) == []
    runs[1] = figures("off", gc_thresholds=(700, 10, 10), gc_frozen_objects=5)
    assert _missed(runs, retained=True) == ["off leaves the collector as Python set it"]


def test_a_disagreement_of_one_run_is_a_miss() -> None:
    runs = [figures(), figures(round=2, disagreements=("rows: 1 and 2",))]
    (mark,) = marks_of(runs, retained=False)
    assert not mark.holds
    assert mark.seen == "tuned 2: rows: 1 and 2"


def test_a_median_is_taken_figure_by_figure() -> None:
    runs = [figures(lag_max_ms=lag, peak_rss_mb=mb) for lag, mb in ((1.0, 9.0), (2.0, 8.0), (30.0, 7.0))]
    middle = median_of(runs)
    assert (middle.lag_max_ms, middle.peak_rss_mb) == (2.0, 8.0)
