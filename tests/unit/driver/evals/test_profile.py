"""Tasks ranked: the hardest, the flakiest, the slowest, and those that never scored."""

from pathlib import Path

from rollgym.driver.evals.profile import RunProfile, profile
from unit.driver.evals.artifacts import failure, masked, owed, result, write_run


def profiled(folder: Path) -> RunProfile:
    rows = [
        result(0, 0, 1.0, ng_perf={"total_latency_ms": 5.0}),
        result(0, 1, 1.0, ng_perf={"total_latency_ms": 7.0}),
        result(1, 0, 1.0, rollgym_timings={"admission_wait_ms": 999.0, "session_wait_ms": 1.0, "active_ms": 99.0}),
        result(1, 1, 0.0),
        result(2, 0, 0.0),
        result(2, 1, 0.2),
        masked(3, 0),
    ]
    inputs = [owed(task, rollout, env="grid") for task in range(5) for rollout in range(2)]
    return profile(write_run(folder, rows, inputs=inputs, failures=[failure(4)]))


def test_ranks(tmp_path: Path) -> None:
    found = profiled(tmp_path)
    assert [task.task for task in found.hardest(9)] == [2, 1, 0]
    assert [task.task for task in found.flakiest(9)] == [1, 2]
    assert [task.task for task in found.slowest(9)] == [1, 0]
    assert [task.task for task in found.never_scored()] == [3, 4]
    assert [task.task for task in found.hardest(1)] == [2]


def test_a_task_shows_what_it_is_over(tmp_path: Path) -> None:
    one, three = profiled(tmp_path).tasks[1], profiled(tmp_path).tasks[3]
    assert (one.label, one.scored, one.passed, one.pass_rate, one.latency_ms) == ("grid", 2, 1, 0.5, 100.0)
    assert (three.expected, three.scored, three.masked, three.unfinished, three.pass_rate) == (2, 0, 1, 1, None)


def test_the_reward_that_passes_can_be_chosen(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0, 0, 0.1 + 0.2), result(0, 1, 0.29)])
    assert profile(run, pass_at=0.3).tasks[0].passed == 1
    assert profile(run).tasks[0].passed == 0
