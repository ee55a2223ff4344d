"""An env-bundle that is killed under load and started again: what was lost is masked, the rest is played."""

import asyncio
import signal

import pytest

from integration.resources.commands import all_slots_free, bundle, client_of, nothing_held, resources_for
from integration.resources.load import Rollout, agent
from waiting import eventually

ROLLOUTS, AT_ONCE, SLOTS = 200, 32, 24
DOWN_S = 5.0
REWARDS = (0.25, 0.25, 0.25, 0.25)
STEP_S = 0.05
BUNDLE = ("--max-sessions", str(SLOTS))


@pytest.mark.timeout(90)
async def test_only_what_was_in_an_episode_when_the_server_died_is_masked() -> None:
    loop, places = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    async with (
        bundle(*BUNDLE) as env,
        resources_for(env.url, "--patience", "15") as server,
        agent(server.url) as player,
        client_of(server) as client,
    ):

        async def play(number: int) -> Rollout:
            async with places:
                return await player.played(REWARDS, STEP_S, seed=number)

        playing = [asyncio.create_task(play(number)) for number in range(ROLLOUTS)]
        await eventually(lambda: sum(task.done() for task in playing) >= AT_ONCE, 30)
        killed_at = loop.time()
        env.send(signal.SIGKILL)
        await asyncio.to_thread(env.wait)
        await asyncio.sleep(DOWN_S)
        restarted_at = loop.time()
        async with bundle(*BUNDLE, port=env.port) as again:
            played = await asyncio.gather(*playing)
            await eventually(lambda: all_slots_free(again.url))
        assert await eventually(lambda: nothing_held(client))
        assert "never retrieved" not in server.log()

    masked = [rollout for rollout in played if not rollout.is_scored]
    assert 0 < len(masked) <= SLOTS
    assert all(rollout.opened_at <= killed_at + 0.5 for rollout in masked)
    assert {rollout.verdict["failure_kind"] for rollout in masked} <= {"env_lost", "env_refused"}
    assert {rollout.verdict["reward"] for rollout in played if rollout.is_scored} == {sum(REWARDS)}
    assert sum(rollout.opened_at >= restarted_at for rollout in played) >= AT_ONCE
    assert {code for rollout in played for code in rollout.refusals} == {"env_refused"}
