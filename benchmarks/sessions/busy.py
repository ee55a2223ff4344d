"""Busy bundle: too few slots, handshakes that only need time, rollouts abandoned without a close.

320 rollouts on 64 slots, a third of the handshakes answered after 12 to 20 s, 64 rollouts cancelled at the end. Times
are divided by `--speed`, the server's own timeouts included; what the table says is in seconds before that.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from benchmarks.sessions.processes import running
from benchmarks.sessions.rollouts import Rollout, client, play, seed, verify

SLOTS, ROLLOUTS, ABANDONED, CALLS = 64, 320, 64, 3
LATE_S = (12.0, 14.0, 16.0, 18.0, 20.0)
PATIENCE_S, CONNECT_S, EPISODE_S = 600.0, 10.0, 6.0
IDLE_S = (600.0, 120.0)


@dataclass
class Outcome:
    """One cell's run: its rollouts, slots held over time, and when all were free again, in seconds before `--speed`."""

    rollouts: list[Rollout] = field(default_factory=list)
    held: list[tuple[float, int]] = field(default_factory=list)
    abandoned_at_s: float = 0.0
    all_free_s: float = 0.0
    attempts: int = 0
    opened: int = 0


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """One row per patience and idle timeout, and the checks on them."""
    rows: list[dict[str, Any]] = []
    said: dict[str, bool] = {}
    for patience_s in (0.0, PATIENCE_S):
        for idle_s in IDLE_S:
            outcome = _cell(patience_s, idle_s, options.speed)
            row = _row(patience_s, idle_s, outcome)
            rows.append(row)
            said |= _checks(row, patience_s, idle_s)
    return rows, said


def _cell(patience_s: float, idle_s: float, speed: float) -> Outcome:
    late = [
        f"--fault=late-handshake:probability={1 / (3 * len(LATE_S) - place):.4f}:duration={seconds / speed}"
        for place, seconds in enumerate(LATE_S)
    ]
    with running("gym-env-bundle", "serve", "--port", "0", "--admin", "--max-sessions", str(SLOTS), *late) as bundle:
        flags = {"patience": patience_s, "connect-timeout": CONNECT_S, "idle-timeout": idle_s, "reset-timeout": 600.0}
        arguments = [f"--{name}={value / speed}" for name, value in flags.items()]
        with running("gym-resources", "serve", "--port", "0", f"--env=echo={bundle.url}/echo", *arguments) as server:
            return asyncio.run(_scenario(server.url, bundle.url, idle_s, speed))


async def _scenario(url: str, bundle_url: str, idle_s: float, speed: float) -> Outcome:
    outcome, started = Outcome(), time.monotonic()
    async with client(url) as http, client(bundle_url) as admin:
        watching = asyncio.create_task(_watch(admin, outcome, started))
        places = asyncio.Semaphore(SLOTS * 2)
        async with asyncio.TaskGroup() as group:
            for number in range(ROLLOUTS - ABANDONED):
                group.create_task(_rollout(http, Rollout(number), outcome, places, started, speed))
        await _abandon(http, outcome, started)
        outcome.abandoned_at_s = time.monotonic() - started
        deadline = outcome.abandoned_at_s + (idle_s + 30) / speed
        await _until_free(admin, started + deadline)
        outcome.all_free_s = (time.monotonic() - started - outcome.abandoned_at_s) * speed
        watching.cancel()
        outcome.attempts, outcome.opened = await counts(http)
    return outcome


async def _rollout(
    http: aiohttp.ClientSession,
    rollout: Rollout,
    outcome: Outcome,
    places: asyncio.Semaphore,
    started: float,
    speed: float,
) -> None:
    outcome.rollouts.append(rollout)
    async with places:
        cookie = await seed(http, rollout, started)
        if rollout.seed_status == 200:
            await play(http, cookie, CALLS, EPISODE_S / CALLS / speed)
        await verify(http, cookie, rollout)


async def _abandon(http: aiohttp.ClientSession, outcome: Outcome, started: float) -> None:
    """Sessions whose clients vanish without a close, as a cancelled run leaves them."""
    rollouts = [Rollout(ROLLOUTS - ABANDONED + number, outcome="abandoned") for number in range(ABANDONED)]
    await asyncio.gather(*(seed(http, rollout, started) for rollout in rollouts))
    outcome.rollouts += rollouts


async def _watch(admin: aiohttp.ClientSession, outcome: Outcome, started: float) -> None:
    while True:
        outcome.held.append((time.monotonic() - started, await _active(admin)))
        await asyncio.sleep(0.1)


async def _until_free(admin: aiohttp.ClientSession, deadline: float) -> None:
    while await _active(admin) and time.monotonic() < deadline:  # noqa: ASYNC110 - another process's count
        await asyncio.sleep(0.05)


async def _active(admin: aiohttp.ClientSession) -> int:
    async with admin.get("/admin/stats") as answer:
        found: int = (await answer.json())["active"]
    return found


async def counts(http: aiohttp.ClientSession) -> tuple[int, int]:
    """Attempts, and sessions opened, from the server's metrics."""
    async with http.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    found = {
        line.split('outcome="')[1].split('"')[0]: int(float(line.rsplit(" ", 1)[1]))
        for line in lines
        if line.startswith("rollgym_session_open_attempts_total{")
    }
    return sum(found.values()), found.get("opened", 0)


def _row(patience_s: float, idle_s: float, outcome: Outcome) -> dict[str, Any]:
    played = [rollout for rollout in outcome.rollouts if rollout.outcome != "abandoned"]

    def percent(what: str) -> float:
        return 100.0 * sum(rollout.outcome == what for rollout in played) / len(played)

    def held_after(share: float) -> int:
        at = outcome.abandoned_at_s * share
        return next((held for when, held in outcome.held if when >= at), 0)

    return {
        "patience": "on" if patience_s else "off",
        "idle timeout s": int(idle_s),
        "rollouts": len(outcome.rollouts),
        "masked %": percent("masked"),
        "failed %": percent("failed"),
        "seed 503s": sum(rollout.seed_status == 503 for rollout in played),
        "/verify 503s": sum(rollout.verify_status == 503 for rollout in played),
        "held at 1/4": held_after(0.25),
        "at 1/2": held_after(0.5),
        "at 3/4": held_after(0.75),
        "when abandoned": held_after(1.0),
        "all free after s": outcome.all_free_s,
        "attempts/opened": outcome.attempts / max(1, outcome.opened),
    }


def _checks(row: dict[str, Any], patience_s: float, idle_s: float) -> dict[str, bool]:
    name = f"patience {row['patience']}, idle timeout {idle_s:g} s"
    free = (
        f"{name}: all slots free {row['all free after s']:.0f} s after the last was abandoned ({idle_s + 5:g} or less)"
    )
    said = {free: row["all free after s"] <= idle_s + 5}
    if patience_s:
        spoiled = row["masked %"], row["failed %"], row["seed 503s"], row["/verify 503s"]
        said[f"{name}: nothing masked, failed or 503 {spoiled}"] = not any(spoiled)
    else:
        said[f"{name}: {row['masked %']:.0f}% masked (30% or more: the check can fail)"] = row["masked %"] >= 30
    return said
