"""`docker compose up --exit-code-from driver`: one eval from nothing, its exit code, its rows, and nothing left."""

import os
import stat

import pytest

from compose.stack import Stack, rows

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


def test_up_from_a_clean_clone_gives_the_evals_exit_code_and_200_rows(stack: Stack) -> None:
    answer = stack.compose("up", "--build", "--exit-code-from", "driver", check=False)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    (folder,) = stack.result_folders()
    results = folder / "rollouts.jsonl"
    scored = rows(results)
    assert len(scored) == 200
    assert all(isinstance(row["reward"], float) for row in scored)
    assert results.stat().st_uid == 1000
    assert stat.S_IMODE(results.stat().st_mode) & stat.S_IROTH
    codes = {each.name: each.state["ExitCode"] for each in stack.containers()}
    assert 137 not in codes.values(), codes

    stack.compose("down", "--volumes")
    assert stack.leftovers() == []


@pytest.mark.skipif(os.getuid() == 0, reason="root stays out of the containers; for anybody else the files are theirs")
def test_make_gives_results_to_the_caller(services: Stack) -> None:
    before = services.result_folders()
    services.make("compose-eval", "ARGS=")
    (folder,) = services.result_folders() - before
    assert (folder / "rollouts.jsonl").stat().st_uid == os.getuid()
