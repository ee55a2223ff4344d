"""A run over time: steps, in-flight, pauses between starts, samples."""

from pathlib import Path

import pytest

from rollgym.driver.evals.timeline import Timeline, read_timeline
from unit.driver.evals.artifacts import event, write_run


def timeline(folder: Path, *journal: object, samples: list[object] | None = None) -> Timeline:
    return read_timeline(write_run(folder, journal=journal, samples=samples))


def sample(at: float, lag_ms: float, pause_ms: float) -> dict[str, object]:
    zero = {"in_flight": 0, "lag_mean_ms": 0.0, "gc_pause_sum_ms": 0.0, "gc_collections": [0, 0, 0]}
    return {"at": at, "lag_max_ms": lag_ms, "gc_pause_max_ms": pause_ms, **zero}


def test_in_flight_is_the_mean_over_each_step(tmp_path: Path) -> None:
    found = timeline(
        tmp_path,
        event("started", 100.0),
        event("dispatched", 100.0, (0, 0)),
        event("dispatched", 105.0, (1, 0)),
        event("succeeded", 115.0, (0, 0), seconds=15.0),
        event("failed", 120.0, (1, 0), seconds=15.0, failure_class="env_busy"),
        event("ended", 160.0),
    )
    assert (found.length_s, found.ended, len(found.steps)) == (60.0, 1, 6)
    assert [step.in_flight for step in found.steps] == pytest.approx([1.5, 1.5, 0, 0, 0, 0])
    assert found.steps[1].latency_s(0.5) == 15.0
    assert found.steps[1].rollouts_per_hour == 360.0
    assert found.steps[2].failures == {"env_busy": 1}
    assert found.steps[0].latency_s(0.5) is None


def test_what_lies_between_two_starts_is_cut_out_and_lost_rollouts_with_it(tmp_path: Path) -> None:
    found = timeline(
        tmp_path,
        event("started", 0.0),
        event("dispatched", 0.0, (0, 0)),
        event("dispatched", 30.0, (1, 0)),
        event("resumed", 10_000.0),
        event("dispatched", 10_000.0, (0, 0)),
        event("masked", 10_030.0, (0, 0), seconds=30.0),
        samples=[sample(5.0, 1.0, 0.0), sample(10_029.0, 7.0, 3.0), sample(10_028.0, 2.0, 4.0)],
    )
    assert (found.length_s, found.resumed_s) == (60.0, [30.0])
    assert [step.in_flight for step in found.steps] == pytest.approx([1.0] * 6)
    assert (found.steps[0].lag_max_ms, found.steps[5].lag_max_ms, found.steps[5].gc_pause_max_ms) == (1.0, 7.0, 4.0)
    assert found.steps[3].lag_max_ms is None


@pytest.mark.parametrize("journal", [(), (event("started", 5.0),)], ids=["none", "one-line"])
def test_a_run_without_a_journal_has_no_steps(tmp_path: Path, journal: tuple[object, ...]) -> None:
    assert timeline(tmp_path, *journal).steps == []


def test_a_long_run_has_sixty_steps(tmp_path: Path) -> None:
    ends = [event("succeeded", float(at), (at, 0), seconds=1.0) for at in range(5000)]
    assert len(timeline(tmp_path, event("started", 0.0), *ends).steps) == 60
