"""Herd: 1,024 waiters on 64 slots, short episodes: how often they ask, how long they wait, who is served when.

Gaps and order are noted by the environment server itself, so that the load on the generator does not count as ours.
Order is seen twice: in the connections, which come in as their waiters were let in, and in the resets, where handshakes
under way together overtake each other. At first there are as many as slots, and none of those waits for another: their
resets do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from typing import Any

import httpx
import uvloop
from benchmarks.sessions.processes import running
from benchmarks.sessions.raw_http import RawClient, header
from benchmarks.sessions.tables import quantile

WAITERS, SLOTS = 1024, 64
VERIFY = json.dumps({"responses_create_params": {"input": []}, "response": {"id": "r"}}).encode()


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """One row, and the checks on it."""
    del options
    environment = (sys.executable, "-m", "benchmarks.sessions.slots_server", str(SLOTS))
    with (
        running(*environment) as slots,
        running("gym-resources", "serve", "--port", "0", f"--env=slots={slots.url}") as server,
    ):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            waits = runner.run(_scenario(server.url))
        noted = httpx.get(f"{slots.url}/stats", trust_env=False).json()
    # One handshake more than sessions: nobody knew the environment's tools yet, and the first to ask was told so.
    attempts = (len(noted["used"]) + noted["refused"]) / len(noted["seeds"])
    gaps = _gaps(noted["freed"], noted["used"])
    seeds = noted["seeds"]
    let_in = _moved([seed for _, seed in sorted(zip(noted["connections"], seeds, strict=True))])
    reset = _moved(seeds)[SLOTS:]
    row = {
        "waiters": WAITERS,
        "slots": SLOTS,
        "opened": len(noted["seeds"]),
        "attempts/opened": attempts,
        "wait p50 s": quantile(waits, 0.5),
        "wait p99 s": quantile(waits, 0.99),
        "freed-to-used p50 ms": quantile(gaps, 0.5) * 1e3,
        "p99 ms": quantile(gaps, 0.99) * 1e3,
        "longest ms": max(gaps, default=0.0) * 1e3,
        "let in: places moved": max(let_in),
        "reset: p99": quantile(reset, 0.99),
    }
    return [row], {
        f"{attempts:.2f} attempts per opened session (1.5 or less)": attempts <= 1.5,
        f"a freed slot is used again within {row['p99 ms']:.0f} ms, p99 (under 50)": row["p99 ms"] < 50,
        f"let in in order of arrival, to {row['let in: places moved']} places (0)": row["let in: places moved"] == 0,
        f"reset in that order to {row['reset: p99']:.0f} places, p99 (16, one tick of them, or less)": (
            row["reset: p99"] <= 16
        ),
        f"every waiter was served: {row['opened']}": row["opened"] == WAITERS,
    }


async def _scenario(url: str) -> list[float]:
    """Seconds that each seed took. All connections are there first, so that arrivals have an order."""
    clients = [await RawClient.connected(url) for _ in range(WAITERS)]
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, each in enumerate(clients):
            tasks.append(group.create_task(_rollout(each, number)))
            if number % 16 == 15:
                await asyncio.sleep(0.01)
    for each in clients:
        each.close()
    return [task.result() for task in tasks]


async def _rollout(client: RawClient, number: int) -> float:
    started = time.perf_counter()
    row = json.dumps({"responses_create_params": {"input": []}, "seed": number}).encode()
    status, head, body = await client.post("/seed_session", row)
    waited_s = time.perf_counter() - started
    if status != 200:
        raise RuntimeError(f"seed answered {status}: {body!r}")
    cookie = b"Cookie: " + header(head, b"set-cookie").split(";")[0].encode() + b"\r\n"
    await client.post("/step", b"{}", cookie)
    await asyncio.sleep(0.5 + random.Random(number).random())
    await client.post("/step", b'{"done": true}', cookie)
    status, _, body = await client.post("/verify", VERIFY, cookie)
    if status != 200 or b'"reward":1.0' not in body:
        raise RuntimeError(f"verify answered {status}: {body!r}")
    return waited_s


def _moved(seeds: list[int]) -> list[int]:
    """How many places each of them is from where its arrival put it."""
    return [abs(seed - place) for place, seed in enumerate(seeds)]


def _gaps(freed: list[float], used: list[float]) -> list[float]:
    """From each slot freed to the next use, for as long as anybody waited."""
    later = used[len(used) - (WAITERS - SLOTS) :]
    return [max(0.0, use - free) for free, use in zip(freed[-WAITERS:], later, strict=False)]
