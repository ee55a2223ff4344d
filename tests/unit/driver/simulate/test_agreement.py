"""Whatever tells of a run, one part that says something else is found and named."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollgym.common import jsonx
from rollgym.driver.artifacts.manifest import Manifest, RolloutCounts
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.simulate.agreement import Served, Told, disagreements, served_by


def _line(task: int, rollout: int, **more: Any) -> bytes:
    return jsonx.dumps({"_ng_task_index": task, "_ng_rollout_index": rollout, **more}) + b"\n"


def _manifest(paths: ArtifactPaths, succeeded: int, failed: int) -> None:
    Manifest(
        run_id="run",
        started_at=1.0,
        input_file="tasks.jsonl",
        input_digest="",
        settings_digest="",
        settings={},
        owed=3,
        counts=RolloutCounts(succeeded=succeeded, failed=failed),
    ).write(paths.manifest)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Three rollouts: one that went well, one that did at its second attempt, one that failed three times."""
    paths = ArtifactPaths(tmp_path / "rollouts.jsonl")
    paths.results.write_bytes(_line(0, 0) + _line(0, 1))
    paths.failures.write_bytes(_line(0, 1) + 3 * _line(1, 0))
    _manifest(paths, 2, 1)
    return Told(3, 3, {"coverage": {"expected": 3, "scored": 2, "failed": 1}}, paths)


SERVED = Served(6, Counter({(0, 1): 1, (1, 0): 3}))


def test_a_run_with_failures_agrees_with_itself(told: Told) -> None:
    assert disagreements(told, SERVED) == []
    assert disagreements(told) == []


def test_a_failure_that_no_repeat_can_help_counts_at_once(told: Told) -> None:
    told.paths.failures.write_bytes(_line(0, 1) + _line(1, 0, _ng_failure_terminal=True))
    assert disagreements(told) == []


def _twice(told: Told) -> Told:
    told.paths.results.write_bytes(_line(0, 0) + 2 * _line(0, 1))
    return told


def _both(told: Told) -> Told:
    told.paths.results.write_bytes(_line(0, 0) + _line(0, 1) + _line(1, 0))
    return told


def _row_lost(told: Told) -> Told:
    told.paths.results.write_bytes(_line(0, 0))
    return told


def _failure_lost(told: Told) -> Told:
    told.paths.failures.unlink()
    return told


def _manifest_off(told: Told) -> Told:
    _manifest(told.paths, 3, 0)
    return told


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_twice, "in the results twice: 1 and 0"),
        (_both, "both in the results and failed for good: 1 and 0"),
        (_row_lost, "rows in the results and rollouts scored"),
        (_failure_lost, "failed for good in the failures file and in the summary: 0 and 1"),
        (_manifest_off, "successes in the manifest"),
        (lambda told: replace(told, exit_code=0), "the exit code and what became of the rollouts: 0 and 3"),
        (lambda told: replace(told, owed=4), "rollouts expected by the summary and owed: 3 and 4"),
    ],
    ids=["row twice", "both files", "row lost", "failures lost", "manifest", "exit code", "owed"],
)
def test_each_disagreement_is_named(told: Told, spoil: Callable[[Told], Told], said: str) -> None:
    assert any(said in problem for problem in disagreements(spoil(told), SERVED))


def test_agents_that_answered_something_else_disagree(told: Told) -> None:
    more = replace(SERVED, answers=7)
    assert disagreements(told, more) == ["attempts in the files and answered by the agents: 6 and 7"]
    other = replace(SERVED, failed_attempts=Counter({(0, 0): 1, (1, 0): 3}))
    assert any("only one of" in problem and problem.endswith("2 and 0") for problem in disagreements(told, other))


def test_what_replicas_answered_is_added_up() -> None:
    stats = [
        {"answered_at": [1.0, 2.0], "failed_attempts": [[1, 0, 0]]},
        {"answered_at": [3.0], "failed_attempts": [[1, 0, 1]]},
    ]
    assert served_by(stats) == Served(3, Counter({(1, 0): 2}))
