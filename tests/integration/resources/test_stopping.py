"""The end of `gym-resources serve`: in time, whatever its sessions, its waiters and its environment servers do."""

import asyncio
from typing import Any

import aiohttp
import pytest

from integration.resources.commands import RESOURCES, all_slots_free, bundle, client_of, resources_for, stats_of
from integration.resources.env_server import env_server
from integration.resources.load import Agent, Rollout, agent
from processes import RunningCommand, running
from waiting import eventually

SESSIONS, STEPPING, IN_A_LONG_STEP, WAITING = 256, 85, 85, 32
STOP_S = 10
"""`--stop-timeout`, 8 s, and the 2 s after which a process that is still there leaves with another code."""
SILENT_PEERS, SILENT_STOP_S = 500, 8


async def opened(player: Agent, count: int) -> list[Rollout]:
    return await asyncio.gather(*(player.seeded(seed=number) for number in range(count)))


async def step_without_end(player: Agent, rollout: Rollout) -> None:
    while await player.call(rollout, {"reward": 0.0}) == 200:
        pass


def assert_stopped_cleanly(server: RunningCommand, code: int) -> None:
    assert code == 0, server.log()
    for sign in ("never retrieved", "was destroyed but it is pending", "Traceback", "took too long"):
        assert sign not in server.log(), server.log()


@pytest.mark.timeout(60)
async def test_a_stop_under_load_closes_all_256_sessions_in_time() -> None:
    async with bundle("--max-sessions", str(SESSIONS)) as env, resources_for(env.url) as server:
        async with agent(server.url) as player, client_of(server) as client:
            rollouts = await opened(player, SESSIONS)
            long = rollouts[STEPPING : STEPPING + IN_A_LONG_STEP]
            under_way: list[asyncio.Task[Any]] = [
                *(asyncio.create_task(player.call(each, {"delay_s": 60})) for each in long),
                *(asyncio.create_task(step_without_end(player, each)) for each in rollouts[:STEPPING]),
            ]
            waiting = [asyncio.create_task(player.post("/seed_session", {"seed": n})) for n in range(WAITING)]
            await eventually(lambda: has_waiters(client))
            await eventually(lambda: has_stepped(env.url))

            code = await server.stop(timeout_s=STOP_S)

            refusals = await asyncio.gather(*waiting)
            assert {(each.status, each.body["code"]) for each in refusals} == {(503, "env_busy")}
            ends = await asyncio.gather(*under_way, return_exceptions=True)
            assert all(end is None or isinstance(end, int | aiohttp.ClientError) for end in ends), ends
            await eventually(lambda: all_slots_free(env.url), 5)
        assert (await stats_of(env.url))["peak"] == SESSIONS
        assert_stopped_cleanly(server, code)


async def has_waiters(client: Any) -> bool:
    (gate,) = (await client.get("/sessions")).json()["envs"].values()
    return bool(gate["waiting"] >= WAITING)


async def has_stepped(url: str) -> bool:
    return bool((await stats_of(url))["steps"] > STEPPING + IN_A_LONG_STEP)


@pytest.mark.timeout(60)
async def test_peers_that_never_answer_a_close_hold_up_no_stop() -> None:
    async with (
        env_server(answers_close=False) as env,
        running(*RESOURCES, "--env", f"env={env.url}") as server,
        agent(server.url) as player,
    ):
        await opened(player, SILENT_PEERS)
        assert env.stats.active == SILENT_PEERS
        assert_stopped_cleanly(server, await server.stop(timeout_s=SILENT_STOP_S))
        assert env.stats.closes == SILENT_PEERS
