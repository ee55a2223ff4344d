"""Many rollouts at once, as an agent plays them, and what each of them was answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from integration.resources.commands import ROW

REFUSED_PAUSE_S = 0.2


@dataclass(slots=True)
class Answer:
    """One answer: its status, its JSON, its cookie where it sets one."""

    status: int
    body: dict[str, Any]
    cookie: str = ""


@dataclass(slots=True)
class Rollout:
    """One rollout as its client saw it; times are the loop's."""

    refusals: list[str] = field(default_factory=list)
    opened_at: float = 0.0
    calls: list[int] = field(default_factory=list)
    verdict: dict[str, Any] = field(default_factory=dict)
    cookie: str = ""

    @property
    def is_scored(self) -> bool:
        return self.verdict["mask_sample"] is False


class Agent:
    """A client without a pool limit and without a cookie jar: each rollout carries its own cookie."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def post(self, path: str, body: Any, cookie: str = "", **headers: str) -> Answer:
        if cookie:
            headers["Cookie"] = cookie
        async with self._http.post(path, json=body, headers=headers) as answer:
            given = answer.headers.get("Set-Cookie", "").partition(";")[0]
            return Answer(answer.status, await answer.json(), given)

    async def seeded(self, **row: Any) -> Rollout:
        """A rollout whose session is open; what refuses it meanwhile is noted, and asked again."""
        rollout = Rollout()
        while True:
            answer = await self.post("/seed_session", {**ROW, **row})
            if answer.status == 200:
                rollout.cookie, rollout.opened_at = answer.cookie, asyncio.get_running_loop().time()
                return rollout
            rollout.refusals.append(answer.body["code"])
            await asyncio.sleep(REFUSED_PAUSE_S)

    async def call(self, rollout: Rollout, arguments: dict[str, Any]) -> int:
        answer = await self.post("/step", arguments, rollout.cookie)
        rollout.calls.append(answer.status)
        return answer.status

    async def verified(self, rollout: Rollout) -> Rollout:
        rollout.verdict = (await self.post("/verify", ROW, rollout.cookie)).body
        return rollout

    async def played(self, rewards: tuple[float, ...], step_s: float = 0.0, **row: Any) -> Rollout:
        """A whole rollout: one step per reward, as long as they are answered, and a verify."""
        rollout = await self.seeded(**row)
        for reward in rewards:
            if await self.call(rollout, {"reward": reward, "delay_s": step_s}) != 200:
                break
        return await self.verified(rollout)


@asynccontextmanager
async def agent(url: str) -> AsyncIterator[Agent]:
    """An agent of the resources server at `url`."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout, cookie_jar=jar) as http:
        yield Agent(http)
