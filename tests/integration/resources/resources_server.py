"""A resources server in the test's own loop, and a client of it. Nothing is left of it when its block ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from prometheus_client import generate_latest

from plain_http import PLAIN
from rollgym.common.app import Service, build_app
from rollgym.common.binding import bind
from rollgym.common.service import UvicornServer
from rollgym.resources.app import create_service
from rollgym.resources.server import ResourcesServer
from rollgym.resources.settings import ResourcesSettings
from waiting import eventually

ROW: dict[str, Any] = {"responses_create_params": {"input": []}}
RESPONSE: dict[str, Any] = {"id": "resp_1", "output": []}


@dataclass
class Rollout:
    """One session as its client sees it: the seed's answer and the cookie, carried explicitly."""

    client: httpx.AsyncClient
    answer: httpx.Response
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> dict[str, Any]:
        found: dict[str, Any] = self.answer.json()
        return found

    async def call(self, tool: str = "step", arguments: Any = None, **options: Any) -> httpx.Response:
        return await self.client.post(f"/{tool}", json=arguments or {}, headers=self.headers, **options)

    async def verify(self) -> httpx.Response:
        return await self.client.post("/verify", json={**ROW, "response": RESPONSE}, headers=self.headers)

    async def close(self) -> httpx.Response:
        return await self.client.post("/close_session", headers=self.headers)


@dataclass
class Resources:
    """A running server."""

    url: str
    client: httpx.AsyncClient
    server: ResourcesServer
    service: Service

    async def seeded(self, **row: Any) -> Rollout:
        """Seed a session, whatever the answer."""
        answer = await self.client.post("/seed_session", json={**ROW, **row})
        cookie = answer.headers.get("set-cookie", "").split(";")[0]
        self.client.cookies.clear()
        return Rollout(self.client, answer, {"cookie": cookie})

    async def opened(self, **row: Any) -> Rollout:
        """Seed a session that must open."""
        rollout = await self.seeded(**row)
        assert rollout.answer.status_code == 200, rollout.answer.text
        return rollout

    def metric(self, line: str) -> float:
        """A metric's value, named as `/metrics` prints it."""
        for each in generate_latest(self.service.registry).decode().splitlines():
            if each.startswith(f"{line} "):
                return float(each.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {line}")

    def leftovers(self) -> dict[str, int]:
        """What a quiet server holds: nothing of any of it."""
        gates = [door.gate for door in self.server.doors.values()]
        return {
            "sessions": len(self.server.book),
            "closing": len(self.server.closers),
            "held": sum(gate.held for gate in gates),
            "handshakes": sum(gate.handshakes for gate in gates),
            "waiting": sum(gate.waiting for gate in gates),
        }

    async def nothing_left(self) -> None:
        """Wait until no session, slot, handshake or close is left."""
        await eventually(lambda: not any(self.leftovers().values()), 10)


@asynccontextmanager
async def resources(env: str | dict[str, str], **settings: Any) -> AsyncIterator[Resources]:
    """A server for one environment named `env`, or for several; small timeouts unless told otherwise."""
    envs = {"env": env} if isinstance(env, str) else env
    defaults = {"patience_s": 5.0, "step_timeout_s": 5.0, "connect_timeout_s": 1.0, "close_timeout_s": 0.3}
    found = ResourcesSettings(host="127.0.0.1", port=0, env=envs, gc_freeze=False, **{**defaults, **settings})
    service = create_service(found)
    app = build_app(service)
    listener = bind(found.host, 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = UvicornServer(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=2))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started, 10)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits, trust_env=False, verify=PLAIN) as client:
            yield Resources(url, client, resources_of(app), service)
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, 15)


def resources_of(app: FastAPI) -> ResourcesServer:
    found: ResourcesServer = app.state.resources
    return found


def text_of(answer: httpx.Response) -> Any:
    return json.loads(answer.text)
