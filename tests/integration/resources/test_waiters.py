"""Hundreds who wait for one environment server: how often it is asked, how many ask at a time, and what they get."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from integration.resources.commands import RESOURCES
from integration.resources.env_server import EnvServer, env_server
from integration.resources.load import Agent, Rollout, agent
from processes import running
from waiting import eventually

pytestmark = pytest.mark.timeout(90)

WAITERS, HANDSHAKES = 500, 32
"""Of waiters, and of handshakes in progress at most: fewer than would shake hands if they were let."""
RETRY_AFTER_S = 1
LONG_GAP_S, SETTLED_AFTER, SEEN = 0.3, 2, 3
"""After two such gaps between attempts, waiters are in their steady phase; it is watched for three more."""
FLAGS = ("--max-handshakes", str(HANDSHAKES), "--connect-timeout", "0.5", "--patience", "60")


@asynccontextmanager
async def asked_by_many(**behaviour: Any) -> AsyncIterator[tuple[EnvServer, Agent]]:
    async with (
        env_server(says_max=False, **behaviour) as env,
        running(*RESOURCES, "--env", f"env={env.url}", *FLAGS) as server,
        agent(server.url) as player,
    ):
        yield env, player


def waiters(player: Agent) -> list["asyncio.Task[Rollout]"]:
    return [asyncio.create_task(player.seeded(seed=number)) for number in range(WAITERS)]


async def settled(env: EnvServer, since: int = 0) -> list[float]:
    """When the server was asked in the waiters' steady phase."""

    def seen() -> list[float]:
        times = env.stats.handshakes[since:]
        long = [place for place, gap in enumerate(gaps(times), 1) if gap >= LONG_GAP_S]
        return times[long[SETTLED_AFTER - 1] :] if len(long) >= SETTLED_AFTER + SEEN else []

    return await eventually(seen, 30)


async def all_open(env: EnvServer, waiting: list["asyncio.Task[Rollout]"]) -> None:
    """Everybody opens, nobody was told to go away, and never more than allowed shook hands at a time."""
    env.handshake_delay_s = 0.02  # long enough for handshakes to meet
    rollouts = await asyncio.gather(*waiting)
    assert [rollout.refusals for rollout in rollouts] == [[]] * WAITERS
    assert 1 < env.stats.peak_handshaking <= HANDSHAKES


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def crowded(times: list[float]) -> list[float]:
    """Where 100 ms hold more than one attempt, and more than 15% of those of their second."""
    found = []
    for begin in times:
        window = sum(begin <= each < begin + 0.1 for each in times)
        second = sum(begin - 0.5 <= each < begin + 0.5 for each in times)
        if window > max(1, 0.15 * second):
            found.append(begin - times[0])
    return found


async def test_a_full_server_is_asked_by_one_at_a_time() -> None:
    async with asked_by_many(refusing=True) as (env, player):
        waiting = waiters(player)
        assert crowded(await settled(env)) == []
        assert len(env.stats.handshakes) < WAITERS / 10
        env.refusing = False
        await all_open(env, waiting)


async def test_handshakes_that_are_cut_off_are_not_tried_again_together() -> None:
    async with asked_by_many(drops_handshakes=True) as (env, player):
        waiting = waiters(player)
        assert crowded(await settled(env)) == []
        assert len(env.stats.handshakes) < WAITERS / 10
        env.drops_handshakes = False
        await all_open(env, waiting)


async def test_handshakes_that_hang_together_are_not_tried_again_together() -> None:
    async with asked_by_many() as (env, player):
        for rollout in await asyncio.gather(*(player.seeded(seed=number) for number in range(2 * HANDSHAKES))):
            await player.verified(rollout)
        known = len(env.stats.handshakes)
        env.handshake_delay_s = 60.0
        waiting = waiters(player)
        assert crowded(await settled(env, known)) == []
        assert env.stats.peak_handshaking == HANDSHAKES
        await all_open(env, waiting)


async def test_what_the_server_asks_to_wait_is_waited_by_everybody() -> None:
    unavailable = {"upgrade_status": 503, "upgrade_headers": {"Retry-After": str(RETRY_AFTER_S)}}
    async with asked_by_many(**unavailable) as (env, player):
        waiting = waiters(player)
        retries = gaps(await settled(env))
        assert min(retries) >= RETRY_AFTER_S
        assert len({round(gap, 2) for gap in retries}) > 1
        env.upgrade_status = None
        await all_open(env, waiting)
