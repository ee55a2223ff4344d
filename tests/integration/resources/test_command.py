"""`gym-resources serve` as a process: its mistakes, and what it leaves behind when it or its client goes."""

import signal

import httpx
import pytest

from integration.resources.commands import all_slots_free, bundle, client_of, resources_for, seed, stats_of
from processes import RunningCommand
from waiting import eventually


async def test_a_server_that_is_killed_leaves_no_slot_taken() -> None:
    watchful = bundle("--ping-interval", "0.2", "--ping-timeout", "0.5")
    async with watchful as env, resources_for(env.url) as server, client_of(server) as client:
        await seed(client)
        assert (await stats_of(env.url))["active"] == 1
        server.send(signal.SIGKILL)
        await eventually(lambda: all_slots_free(env.url))


async def test_a_client_timeout_frees_the_episode_long_before_its_step_ends() -> None:
    slow = bundle("--fault", "slow-step:duration=20")
    async with slow as env, resources_for(env.url) as server, client_of(server) as client:
        _, cookie = await seed(client)
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/step", json={}, headers=cookie, timeout=0.5)
        await eventually(lambda: all_slots_free(env.url), 5)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--workers", "2"), "run one worker"),
        (("--env", "nonsense"), "env"),
        (("--pateince", "3"), "did you mean --patience"),
    ],
    ids=["workers", "no URL", "typo"],
)
def test_mistakes_end_with_2_and_one_line(argv: tuple[str, ...], said: str) -> None:
    command = RunningCommand(("gym-resources", "serve", "--port", "0", *argv))
    try:
        assert command.wait() == 2
        assert said in command.log()
        assert "Traceback" not in command.log()
    finally:
        command.close()
