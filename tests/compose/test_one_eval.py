"""`docker compose up --exit-code-from driver`: one eval from nothing, its exit code, its rows, and nothing left."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.stack import Stack, rows

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.fixture
def fresh(tag: str, tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path, f"{tag}-fresh", tag)
    try:
        yield stack
    finally:
        stack.remove()


def test_up_from_a_clean_clone_gives_the_evals_exit_code_and_200_rows(fresh: Stack) -> None:
    answer = fresh.compose("up", "--build", "--exit-code-from", "driver", check=False)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    (folder,) = fresh.result_folders()
    results = folder / "rollouts.jsonl"
    scored = rows(results)
    assert len(scored) == 200
    assert all(isinstance(row["reward"], float) for row in scored)
    assert results.stat().st_uid == 1000
    assert stat.S_IMODE(results.stat().st_mode) & stat.S_IROTH
    codes = {each.name: each.state["ExitCode"] for each in fresh.containers()}
    assert 137 not in codes.values(), codes

    fresh.compose("down")
    assert fresh.leftovers() == []
