"""Two runs compared: the paired difference, its interval, and what it leaves out."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.comparison import Comparison, compare_runs
from rollgym.driver.evals.describe import interval_95
from rollgym.driver.evals.tables import told_apart, verdict
from unit.driver.evals.artifacts import masked, owed, result, write_run


def run_of(folder: Path, rewards: dict[int, list[float]], **files: object) -> ArtifactPaths:
    rows = [result(task, rollout, reward) for task, all_of in rewards.items() for rollout, reward in enumerate(all_of)]
    return write_run(folder, rows, **files)  # type: ignore[arg-type]  # companions as they come


def compared(folder: Path, a: dict[int, list[float]], b: dict[int, list[float]]) -> Comparison:
    return compare_runs(run_of(folder / "a", a), run_of(folder / "b", b))


def test_each_task_counts_once_whatever_its_number_of_rollouts(tmp_path: Path) -> None:
    found = compared(tmp_path, {0: [0.0] * 9, 1: [1.0]}, {0: [1.0], 1: [1.0]})
    assert found.difference == pytest.approx(0.5)
    assert found.signs() == {"higher": 1, "lower": 0, "same": 1}
    assert any("different numbers of rollouts" in remark for remark in found.remarks)


def test_the_interval_is_students_over_the_tasks_differences(tmp_path: Path) -> None:
    a, b = {0: [0.0], 1: [0.5], 2: [1.0]}, {0: [0.5], 1: [0.6], 2: [1.2]}
    found = compared(tmp_path, a, b)
    # Differences 0.5, 0.1, 0.2: t(2) at 97.5 % is 4.302653.
    half = 4.302652729749462 * statistics.stdev([0.5, 0.1, 0.2]) / math.sqrt(3)
    mean = 0.8 / 3
    assert found.difference == pytest.approx(mean)
    assert found.interval == pytest.approx((mean - half, mean + half))


@settings(max_examples=50)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=12), st.floats(-5, 5))
def test_the_interval_holds_the_mean_and_moves_with_it(differences: list[float], shift: float) -> None:
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    bounds, moved = interval_95(mean, error, len(differences)), interval_95(mean + shift, error, len(differences))
    assert bounds is not None
    assert bounds[0] <= mean <= bounds[1]
    assert moved == pytest.approx((bounds[0] + shift, bounds[1] + shift))


def test_tasks_of_one_run_only_are_left_out_and_counted(tmp_path: Path) -> None:
    found = compared(tmp_path, {0: [0.0], 1: [0.0], 5: [1.0]}, {0: [1.0], 1: [1.0], 7: [0.0], 8: [0.0]})
    assert (found.difference, found.only_a, found.only_b) == (1.0, [5], [7, 8])
    said = " ".join(found.remarks)
    assert "1 task(s) are in A only" in said
    assert "2 task(s) are in B only" in said


def test_a_task_without_a_score_on_a_side_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [result(0), masked(1)])
    b = write_run(tmp_path / "b", [result(0), result(1)])
    found = compare_runs(a, b)
    assert (len(found.pairs), found.without_value) == (1, [(1, 1)])
    assert any("over the easier rest" in remark for remark in found.remarks)


def test_tasks_are_paired_by_what_they_are_where_both_runs_know(tmp_path: Path) -> None:
    """Run B saw the same tasks in another order, sampled otherwise, by another agent."""
    a = run_of(tmp_path / "a", {0: [0.1], 1: [0.9]}, inputs=[owed(0, seed=7), owed(1)])
    other: dict[str, Any] = {"agent_ref": {"name": "agent"}, "tags": {"x": 1}}
    inputs = [
        owed(0, responses_create_params={"temperature": 0.5, "input": "task 1"}, **other),
        owed(1, responses_create_params={"input": "task 0"}, seed=7, **other),
    ]
    b = run_of(tmp_path / "b", {0: [0.8], 1: [0.2]}, inputs=inputs)
    found = compare_runs(a, b)
    assert found.by_content
    assert [(pair.task_a, pair.task_b) for pair in found.pairs] == [(0, 1), (1, 0)]
    assert found.difference == pytest.approx(0.0)


def test_tasks_of_the_same_number_that_differ_are_not_paired(tmp_path: Path) -> None:
    a = run_of(tmp_path / "a", {0: [0.0], 1: [0.0]}, inputs=[owed(0), owed(1)])
    b = run_of(tmp_path / "b", {0: [1.0], 1: [1.0]}, inputs=[owed(0), owed(1, seed=3)])
    found = compare_runs(a, b)
    assert (len(found.pairs), found.only_a, found.only_b) == (1, [1], [1])


def test_pairing_by_index_alone_is_said_aloud(tmp_path: Path) -> None:
    found = compared(tmp_path, {0: [0.0]}, {0: [1.0]})
    assert not found.by_content
    assert "paired by task index" in found.remarks[-1]


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({0: [0.0], 1: [0.1], 2: [0.0]}, {0: [1.0], 1: [1.0], 2: [0.9]}, "B is higher."),
        ({0: [1.0], 1: [1.0], 2: [0.9]}, {0: [0.0], 1: [0.1], 2: [0.0]}, "B is lower."),
        ({0: [0.0], 1: [1.0], 2: [0.0]}, {0: [1.0], 1: [0.0], 2: [0.0]}, "cannot be told from no difference"),
        ({0: [0.5], 1: [1.0]}, {0: [0.5], 1: [1.0]}, "They are the same."),
        ({0: [0.5]}, {0: [1.0]}, "too few for an interval"),
        ({0: [0.5]}, {1: [1.0]}, "Nothing to compare"),
    ],
    ids=["higher", "lower", "unclear", "same", "one-pair", "no-pair"],
)
def test_the_verdict_claims_no_more_than_the_interval(
    tmp_path: Path, a: dict[int, list[float]], b: dict[int, list[float]], said: str
) -> None:
    assert said in verdict(compared(tmp_path, a, b))


def test_a_tasks_own_interval_is_welchs(tmp_path: Path) -> None:
    found = compared(tmp_path, {0: [1.0, 2.0, 3.0]}, {0: [4.0, 6.0, 8.0]})
    # Variances 1/3 and 4/3 of the means; Welch-Satterthwaite gives 2.94, so 2 degrees; t(2) = 4.302653.
    half = 4.302652729749462 * math.sqrt(5 / 3)
    assert found.pairs[0].interval == pytest.approx((4 - half, 4 + half))


def test_any_numeric_field_can_be_compared(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [result(0, ng_perf={"num_turns": 2, "total_latency_ms": 10.0}, cost=1.5)])
    b = write_run(tmp_path / "b", [result(0, ng_perf={"num_turns": 5, "total_latency_ms": 40.0}, cost=1.0)])
    differences = {name: compare_runs(a, b, metric=name).difference for name in ("num_turns", "latency_ms", "cost")}
    assert differences == {"num_turns": 3.0, "latency_ms": 30.0, "cost": -0.5}


@pytest.mark.parametrize(
    ("options", "said"),
    [({"metric": "rewrd"}, "did you mean reward"), ({"agent": "agnet"}, "did you mean agent")],
    ids=["metric", "agent"],
)
def test_a_name_that_is_not_there_is_refused_with_the_closest(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    run = write_run(tmp_path, [result(0)])
    with pytest.raises(ConfigurationError, match=said):
        compare_runs(run, run, **options)


@pytest.mark.parametrize(
    ("a", "b", "named"),
    [
        ("results/base.jsonl", "results/new.jsonl", ("base.jsonl", "new.jsonl")),
        ("results/a/run.jsonl", "results/b/run.jsonl", ("a/run.jsonl", "b/run.jsonl")),
        ("x/a/out/run.jsonl", "x/b/out/run.jsonl", ("a/out/run.jsonl", "b/out/run.jsonl")),
        ("run.jsonl", "b/run.jsonl", ("run.jsonl", "b/run.jsonl")),
        ("/x/run.jsonl", "x/run.jsonl", ("/x/run.jsonl", "x/run.jsonl")),
        ("a/run.jsonl", "a/run.jsonl", ("run.jsonl", "run.jsonl")),
    ],
)
def test_runs_are_named_with_what_tells_them_apart(a: str, b: str, named: tuple[str, str]) -> None:
    assert told_apart(Path(a), Path(b)) == named
