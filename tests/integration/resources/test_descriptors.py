"""As many sessions at once as a large run has, and a resources server that may open fewer files than they need."""

import asyncio
import resource
from collections.abc import Iterator

import pytest

from integration.resources.commands import RESOURCES, log_lines
from integration.resources.env_server import Session, env_server, observation
from integration.resources.load import agent
from processes import RunningCommand, command_path, running
from rollgym.common.binding import raise_open_file_limit

pytestmark = pytest.mark.timeout(120)

AT_ONCE = 1024
LOW_LIMIT, WANTED = 256, 150
"""Of open files, and of sessions at once, each of which takes two of them."""


@pytest.fixture(autouse=True)
def files_for_everybody() -> Iterator[None]:
    """This process has a socket to, and one of, each session itself."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_open_file_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def limited(kind: str, limit: int) -> tuple[str, ...]:
    """The words before a command that give it so few open files; `kind`: S for the soft limit, H for both."""
    return "bash", "-c", f'ulimit -{kind}n {limit}; exec "$@"', "limited", command_path(RESOURCES[0]), *RESOURCES[1:]


async def test_1024_steps_are_in_flight_at_once_whatever_the_soft_limit_of_open_files() -> None:
    async with env_server(rewards=(0.5,)) as env:
        all_there = asyncio.Event()

        async def together(session: Session, _: object) -> str:
            if len(env.stats.steps) == AT_ONCE:
                all_there.set()
            await all_there.wait()
            return observation({}, 0.5, True)

        env.on_step = together
        async with running(*limited("S", 256), "--env", f"env={env.url}") as server, agent(server.url) as player:
            rollouts = await asyncio.gather(*(player.played((0.5,)) for _ in range(AT_ONCE)))
        assert {rollout.verdict["reward"] for rollout in rollouts} == {0.5}
        assert not any(rollout.refusals for rollout in rollouts)
        assert env.stats.peak == AT_ONCE


async def test_where_even_the_hard_limit_is_low_there_are_fewer_sessions_at_once_and_none_is_lost() -> None:
    async with env_server(rewards=(0.5,)) as env:
        async with running(*limited("", LOW_LIMIT), "--env", f"env={env.url}") as server, agent(server.url) as player:
            rollouts = await asyncio.gather(*(player.played((0.5,)) for _ in range(WANTED)))
            (warning,) = log_lines(server, "few open files: past so many sessions seeds are refused")
        assert {rollout.verdict["reward"] for rollout in rollouts} == {0.5}
        assert {code for rollout in rollouts for code in rollout.refusals} <= {"server_full"}
        assert env.stats.peak <= warning["max_sessions"] < WANTED


def test_more_sessions_than_open_files_allow_are_refused_at_the_start() -> None:
    command = RunningCommand((*limited("", LOW_LIMIT), "--max-sessions", "200"))
    try:
        assert command.wait() == 2
        assert "raise the limit (ulimit -n) or set it to 60 or less" in command.log()
        assert "Traceback" not in command.log()
    finally:
        command.close()
