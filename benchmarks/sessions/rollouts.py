"""Rollouts as a driver plays them, for benchmarks that count what became of each: seed, a few calls, verify."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

ROW: dict[str, Any] = {"responses_create_params": {"input": []}, "seed": 1}
RESPONSE: dict[str, Any] = {**ROW, "response": {"id": "r", "output": []}}
LAST_CALL = {"reward": 1.0, "done": True}


@dataclass
class Rollout:
    """One rollout's times (seconds from the run's start) and end."""

    number: int
    asked_at: float = 0.0
    opened_at: float | None = None
    outcome: str = "failed"
    seed_status: int = 0
    verify_status: int = 0


def client(url: str, timeout_s: float = 900.0) -> aiohttp.ClientSession:
    """A client without a pool limit and without a cookie jar: cookies are carried by hand."""
    return aiohttp.ClientSession(
        base_url=url,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
    )


async def seed(http: aiohttp.ClientSession, rollout: Rollout, started: float) -> dict[str, str]:
    """Seed a session, whatever comes of it; its cookie as headers."""
    rollout.asked_at = time.monotonic() - started
    async with http.post("/seed_session", json=ROW) as answer:
        rollout.seed_status = answer.status
        await answer.read()
        cookie = answer.headers.get("Set-Cookie", "").split(";")[0]
    if rollout.seed_status == 200:
        rollout.opened_at = time.monotonic() - started
    return {"Cookie": cookie}


async def play(http: aiohttp.ClientSession, cookie: dict[str, str], calls: int, think_s: float) -> None:
    """Some tool calls; the last one ends the episode with a reward of 1."""
    for number in range(calls):
        await asyncio.sleep(think_s)
        async with http.post("/step", json=LAST_CALL if number == calls - 1 else {}, headers=cookie) as answer:
            await answer.read()


async def verify(http: aiohttp.ClientSession, cookie: dict[str, str], rollout: Rollout) -> None:
    """Ask for the reward: scored, masked or failed."""
    async with http.post("/verify", json=RESPONSE, headers=cookie) as answer:
        rollout.verify_status = answer.status
        verdict = json.loads(await answer.read())
    if answer.status == 200:
        rollout.outcome = "masked" if verdict["mask_sample"] else "scored"
