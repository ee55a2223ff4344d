"""Hundreds who wait for one environment server: how often it is asked, how many ask at a time, and what they get.

The servers of this module fail in four ways, each in front of its own waiters. All are asked by one resources server
and at the same time: what is seen takes its time.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from integration.resources.commands import RESOURCES
from integration.resources.env_server import EnvServer, env_server
from integration.resources.load import Agent, Rollout, agent
from processes import running
from waiting import eventually

HANDSHAKES = 32
RETRY_AFTER_S = 1
LONG_GAP_S, SETTLED_AFTER, SEEN = 0.3, 2, 3
"""After two such gaps between attempts, waiters are in their steady phase; it is watched for three more."""
FLAGS = ("--max-handshakes", str(HANDSHAKES), "--connect-timeout", "0.5", "--patience", "60")


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


@dataclass
class Trouble:
    """How a server fails, and for how many. `known`: it served that many sessions before."""

    waiters: int
    fail: Callable[[EnvServer], None]
    mend: Callable[[EnvServer], None]
    known: int = 0
    least_gap_s: float = 0.0


def setting(**values: Any) -> Callable[[EnvServer], None]:
    def change(env: EnvServer) -> None:
        for name, value in values.items():
            setattr(env, name, value)

    return change


MET = 0.02  # seconds that a handshake takes afterwards: long enough for handshakes to meet
UNAVAILABLE = {"upgrade_status": 503, "upgrade_headers": {"Retry-After": str(RETRY_AFTER_S)}}
TROUBLES = {
    "full": Trouble(500, setting(refusing=True), setting(refusing=False)),
    "cut off": Trouble(200, setting(drops_handshakes=True), setting(drops_handshakes=False)),
    "hanging": Trouble(200, setting(handshake_delay_s=60.0), setting(), known=2 * HANDSHAKES),
    "unavailable": Trouble(200, setting(**UNAVAILABLE), setting(upgrade_status=None), least_gap_s=RETRY_AFTER_S),
}


async def waited_out(name: str, env: EnvServer, player: Agent) -> None:
    """Nobody is told to go away, retries are not made together, and everybody opens once the server is well."""
    trouble, stats = TROUBLES[name], env.stats
    for rollout in await opened(player, name, trouble.known):
        await player.verified(rollout)
    known = len(stats.handshakes)
    trouble.fail(env)
    waiting = asyncio.create_task(opened(player, name, trouble.waiters))
    steady = await eventually(lambda: steady_phase(stats.handshakes[known:]), 30)
    assert crowded(steady) == [], name
    assert min(gaps(steady)) >= trouble.least_gap_s, name
    assert len({round(gap, 2) for gap in gaps(steady)}) > 1, name
    assert len(stats.handshakes) - known < 3 * HANDSHAKES, name

    trouble.mend(env)
    env.handshake_delay_s = MET
    stats.peak_handshaking = 0  # who hung up is noticed late: what the server counted until now may be too many
    assert [rollout.refusals for rollout in await waiting] == [[]] * trouble.waiters, name
    assert 1 < stats.peak_handshaking <= HANDSHAKES, name


async def opened(player: Agent, name: str, count: int) -> list[Rollout]:
    return await asyncio.gather(*(player.seeded(env=name, seed=number) for number in range(count)))


def steady_phase(times: list[float]) -> list[float]:
    """The attempts after the first of it; empty until enough of it was seen."""
    long = [place for place, gap in enumerate(gaps(times), 1) if gap >= LONG_GAP_S]
    return times[long[SETTLED_AFTER - 1] :] if len(long) >= SETTLED_AFTER + SEEN else []


@pytest.mark.timeout(90)
async def test_waiters_neither_hammer_a_server_in_trouble_nor_come_back_together() -> None:
    async with contextlib.AsyncExitStack() as stack:
        envs = {name: await stack.enter_async_context(env_server(says_max=False)) for name in TROUBLES}
        words = [word for name, env in envs.items() for word in ("--env", f"{name}={env.url}")]
        server = await stack.enter_async_context(running(*RESOURCES, *words, *FLAGS))
        player = await stack.enter_async_context(agent(server.url))
        async with asyncio.TaskGroup() as group:
            for name, env in envs.items():
                group.create_task(waited_out(name, env, player))
