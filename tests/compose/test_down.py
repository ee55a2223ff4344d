"""After `docker compose down` nothing is left in Docker, and the next `up` goes on with results and history of runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compose.stack import Stack

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

OWNER, NEXT_OWNER = 4321, 8765


@dataclass(frozen=True)
class Project:
    """A clone of its own where neither ./results nor ./history exists yet, on the images of the session's stack."""

    folder: Path
    name: str
    tag: str

    def stack_of(self, owner: int) -> Stack:
        return Stack(self.folder, self.name, self.tag, ROLLGYM_UID=owner, ROLLGYM_GID=owner, ROLLGYM_LIMIT=3)


@pytest.fixture
def project(stack: Stack, tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path, f"{stack.project}-down", stack.tag)
    try:
        yield project
    finally:
        project.stack_of(OWNER).remove()


def start_with_one_eval(stack: Stack, *services: str) -> list[dict[str, Any]]:
    """`docker compose up -d` until its eval has ended; the runs that the head knows then."""
    stack.compose("up", "--detach", *services)
    driver = stack.container("driver")
    assert driver.wait_exit_code() == 0, driver.logs()
    runs = runs_of(stack)
    assert [run["state"] for run in runs] == ["finished"]
    return runs


def start_head(stack: Stack) -> None:
    stack.compose("up", "--detach", "--wait", "head")


def runs_of(stack: Stack) -> list[dict[str, Any]]:
    """What lasts of a run: neither how long ago it was, nor what changes with the time of asking."""
    runs = stack.get("head", 11000, "/v1/runs")["runs"]
    return [{name: run[name] for name in ("run_id", "state", "started_at", "counts", "reward_mean")} for run in runs]


def test_plain_down_leaves_nothing_and_the_history_goes_on(project: Project) -> None:
    stack = project.stack_of(OWNER)
    before = start_with_one_eval(stack)

    stack.compose("down")
    assert stack.leftovers() == []

    start_head(stack)
    assert runs_of(stack) == before
    stack.compose("restart", "head")
    start_head(stack)
    assert runs_of(stack) == before


def test_make_down_leaves_nothing_of_the_monitoring_either(project: Project) -> None:
    stack = project.stack_of(OWNER)
    before = start_with_one_eval(stack, "driver", "prometheus")
    assert stack.containers("prometheus")

    stack.make("down")
    assert stack.leftovers() == []

    start_head(stack)
    assert runs_of(stack) == before


def test_another_user_goes_on_with_the_history_and_leaves_the_results_alone(project: Project) -> None:
    first = project.stack_of(OWNER)
    before = start_with_one_eval(first)
    first.compose("down")

    following = project.stack_of(NEXT_OWNER)
    start_head(following)

    assert runs_of(following) == before
    history, results = project.folder / "history", project.folder / "results"
    assert {path.stat().st_uid for path in (history, *history.iterdir())} == {NEXT_OWNER}
    assert {path.stat().st_uid for path in (results, *results.iterdir())} == {OWNER}
