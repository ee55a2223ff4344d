"""Where a rollout without a row stands."""

from pathlib import Path

import pytest

from rollgym.driver.evals.aggregate import aggregate
from rollgym.driver.evals.owed import read_owed
from unit.driver.evals.artifacts import event, failure, masked, owed, result, write_run

KEY = (0, 0)


@pytest.mark.parametrize(
    ("journal", "failures", "state"),
    [
        ([], [], "missing"),
        ([event("dispatched", key=KEY)], [], "missing"),
        ([event("failed", key=KEY, terminal=True)], [failure(0)], "failed"),
        ([event("failed", key=KEY)], [failure(0)], "missing"),
        ([event("failed", key=KEY), event("dispatched", key=KEY)], [failure(0)], "missing"),
        ([], [failure(0)], "failed"),
        ([event("drained", key=KEY)], [], "drained"),
        ([event("dispatched", key=KEY), event("cancelled", key=KEY)], [], "cancelled"),
        ([event("drained", key=KEY), event("resumed"), event("dispatched", key=KEY)], [], "missing"),
    ],
    ids=[
        "never-reached",
        "lost-with-its-driver",
        "failed-for-good",
        "failed-with-attempts-left",
        "failed-then-lost",
        "failed-without-a-journal",
        "drained",
        "cancelled",
        "drained-then-lost",
    ],
)
def test_the_journal_says_what_became_of_it(
    tmp_path: Path, journal: list[object], failures: list[object], state: str
) -> None:
    run = write_run(tmp_path, inputs=[owed(0)], journal=journal, failures=failures)
    assert read_owed([run], set()).states == {KEY: state}


def test_coverage_sums_to_what_was_expected(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        [result(0), masked(1)],
        inputs=[owed(task) for task in range(6)],
        failures=[failure(2)],
        journal=[
            event("failed", key=(2, 0), terminal=True),
            event("drained", key=(3, 0)),
            event("cancelled", key=(4, 0)),
        ],
    )
    coverage = aggregate([run]).coverage()
    assert coverage == {
        "expected": 6, "scored": 1, "masked": 1, "failed": 1, "drained": 1, "cancelled": 1, "missing": 1
    }  # fmt: skip


def test_without_materialized_inputs_what_is_known_is_expected_and_said_to_be_so(tmp_path: Path) -> None:
    found = aggregate([write_run(tmp_path, [result(0)], failures=[failure(1)])])
    assert found.coverage()["expected"] == 2
    assert not found.complete
    assert "not known" in found.remarks[0]


def test_rows_that_nobody_owes_are_left_out_aloud(tmp_path: Path) -> None:
    found = aggregate([write_run(tmp_path, [result(0), result(9, reward=0.0)], inputs=[owed(0)])])
    assert found.coverage()["scored"] == 1
    assert found.agents["agent"].statistics.rewards.mean == 1.0
    assert found.remarks == ["1 row(s) of rollouts that no materialized input owes are left out"]


def test_lines_of_companions_that_cannot_be_read_are_counted_aloud(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0)], inputs=[owed(0)], failures=[failure(0)], journal=[event("started")])
    for path in (run.failures, run.journal):
        path.write_bytes(path.read_bytes() + b'{"torn')
    assert [remark.split(":")[0] for remark in aggregate([run]).remarks] == ["run_failures.jsonl", "run_journal.jsonl"]


def test_a_task_is_labelled_by_its_environment_and_tags(tmp_path: Path) -> None:
    inputs = [owed(0, env="grid", tags={"level": 3}), owed(1, tags=["easy"]), owed(2, tags={"long": "x" * 200})]
    labels = read_owed([write_run(tmp_path, inputs=inputs)], set()).labels
    assert (labels[0], labels[1], len(labels[2])) == ("grid level=3", "easy", 80)
