"""Connections whose other end is out of reach and never said so: both ends notice, and neither keeps a slot."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from integration.resources.commands import all_slots_free, bundle, client_of, nothing_held, resources_for
from integration.resources.load import Agent, Rollout, agent
from integration.resources.network import network_to
from processes import RunningCommand
from waiting import eventually

pytestmark = pytest.mark.timeout(60)

SESSIONS = 10
BUNDLE = ("--ping-interval", "0.3", "--ping-timeout", "0.5")
WATCHFUL = ("--ping-interval", "0.3", "--ping-timeout", "1", "--step-timeout", "1", "--connect-timeout", "0.5")
PATIENT = ("--ping-interval", "0.3", "--ping-timeout", "20", "--step-timeout", "20")


@dataclass(frozen=True)
class Cut:
    """How the environment server is put out of reach, and back."""

    cut: Callable[[], None]
    mend: Callable[[], None]


@asynccontextmanager
async def silent_network(env: RunningCommand) -> AsyncIterator[tuple[str, Cut]]:
    async with network_to(env.port) as network:
        yield network.url, Cut(network.cut, network.mend)


@asynccontextmanager
async def stopped_process(env: RunningCommand) -> AsyncIterator[tuple[str, Cut]]:
    try:
        yield env.url, Cut(lambda: env.send(signal.SIGSTOP), lambda: env.send(signal.SIGCONT))
    finally:
        env.send(signal.SIGCONT)


WAYS = {"packets dropped": silent_network, "process stopped": stopped_process}


async def sessions_open(client: httpx.AsyncClient) -> int:
    lines = (await client.get("/metrics")).text.splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith("rollgym_sessions_open "))))


async def every_session_noticed(client: httpx.AsyncClient) -> bool:
    (gate,) = (await client.get("/sessions")).json()["envs"].values()
    return gate["slots_held"] - gate["handshakes"] == 0 and await sessions_open(client) == 0


async def begun(player: Agent, number: int) -> Rollout:
    """A session with a step behind it: it cannot be had again."""
    rollout = await player.seeded(seed=number)
    assert await player.call(rollout, {"reward": 0.5}) == 200
    return rollout


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_out_of_reach_is_noticed_and_sessions_open_again_when_it_is_back(way: str) -> None:
    async with (
        bundle(*BUNDLE) as env,
        WAYS[way](env) as (url, reach),
        resources_for(url, *WATCHFUL) as server,
        agent(server.url) as player,
        client_of(server) as client,
    ):
        idle = [await begun(player, number) for number in range(SESSIONS)]
        fresh = [await player.seeded(seed=number) for number in range(SESSIONS)]
        assert await sessions_open(client) == 2 * SESSIONS
        reach.cut()
        in_a_step = idle[: SESSIONS // 2]
        calls = [asyncio.create_task(player.call(rollout, {"reward": 0.5})) for rollout in in_a_step]
        waiting = [asyncio.create_task(player.seeded(seed=number)) for number in range(SESSIONS)]
        assert await asyncio.gather(*calls) == [503] * len(calls)
        assert await eventually(lambda: every_session_noticed(client))
        if way == "packets dropped":
            assert await eventually(lambda: all_slots_free(env.url))

        reach.mend()
        opened = await asyncio.gather(*waiting)
        assert [rollout.refusals for rollout in opened] == [[]] * SESSIONS
        for rollout in (*opened, *fresh):
            assert await player.call(rollout, {"reward": 0.5}) == 200
            assert (await player.verified(rollout)).verdict["reward"] == 0.5
        for rollout in idle:
            verdict = (await player.verified(rollout)).verdict
            assert (verdict["mask_sample"], verdict["failure_kind"]) == (True, "env_lost")
        assert await eventually(lambda: nothing_held(client))
        assert await eventually(lambda: all_slots_free(env.url))


async def test_a_cut_shorter_than_the_pings_bound_loses_nothing() -> None:
    async with (
        bundle() as env,
        network_to(env.port) as network,
        resources_for(network.url, *PATIENT) as server,
        agent(server.url) as player,
    ):
        rollouts = [await begun(player, number) for number in range(SESSIONS)]
        network.cut()
        calls = [asyncio.create_task(player.call(rollout, {"reward": 0.5})) for rollout in rollouts]
        done, _ = await asyncio.wait(calls, timeout=1.0)
        assert not done
        network.mend()
        assert await asyncio.gather(*calls) == [200] * SESSIONS
        for rollout in rollouts:
            assert (await player.verified(rollout)).verdict["reward"] == 1.0
        assert await eventually(lambda: all_slots_free(env.url))
