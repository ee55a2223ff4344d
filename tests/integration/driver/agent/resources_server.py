"""A resources server that does as it is told, and remembers which sessions it was asked for."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from integration.driver.local_server import serving
from rollgym.common import jsonx
from rollgym.common.errors import RollgymError, SessionUnknown, UnknownTool

Handler = Callable[[web.Request, str, Any], Awaitable[web.StreamResponse]]
STEP = {"type": "function", "name": "step", "description": "", "parameters": {"type": "object"}, "strict": False}


def refusal(error: RollgymError, **headers: str) -> web.Response:
    """The answer that stands for `error` on the wire."""
    return web.json_response(error.to_wire(), status=error.status, headers=headers)


async def hang(request: web.Request, session: str, body: Any) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drop(request: web.Request, session: str, body: Any) -> web.StreamResponse:
    """Close the connection instead of answering."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def answering(*, status: int = 200, body: bytes = b"", **headers: str) -> Handler:
    """Always the same answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(request: web.Request, session: str, _: Any) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=named)

    return handler


def refusing(error: RollgymError, **headers: str) -> Handler:
    """Always the same error."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(request: web.Request, session: str, _: Any) -> web.StreamResponse:
        return refusal(error, **named)

    return handler


async def echo(request: web.Request, session: str, body: Any) -> web.StreamResponse:
    """Say the arguments back; `{"done": true}` among them ends the episode."""
    headers = {"X-Rollgym-Done": "1"} if isinstance(body, dict) and body.get("done") else {}
    return web.json_response({"said": body}, headers=headers)


@dataclass
class FakeResources:
    """Sessions with one tool, `step`. `overrides` replaces the handler of a path, `on_seed` that of the seed."""

    overrides: dict[str, Handler] = field(default_factory=dict)
    observation: Any = field(default_factory=lambda: {"message": "Go."})
    verdict: dict[str, Any] = field(default_factory=lambda: {"reward": 0.75})
    url: str = ""
    open: set[str] = field(default_factory=set)
    seeds: list[Any] = field(default_factory=list)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    verified: list[Any] = field(default_factory=list)
    arrivals: list[str] = field(default_factory=list)
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.arrivals.append(path)
        body = jsonx.loads(await request.read())
        session = request.cookies.get("session", "")
        if path == "seed_session":
            self.seeds.append(body)
        if override := self.overrides.get(path):
            return await override(request, session, body)
        if path == "seed_session":
            return self.seeded(body)
        if path == "close_session":
            self.open.discard(session)
            return web.json_response({"resources_session_id": session})
        if session not in self.open:
            return refusal(SessionUnknown("no such session"))
        if path == "verify":
            self.open.discard(session)
            self.verified.append(body)
            return web.json_response({**body, **self.verdict})
        if path == "step":
            self.calls.append((session, path, body))
            return await echo(request, session, body)
        return refusal(UnknownTool(f"no tool {path}; there is step"))

    def seeded(self, row: Any) -> web.Response:
        """Open a session. Its cookie holds characters that a jar would quote or drop."""
        session = f"s{next(self._ids)}.a/b=+"
        self.open.add(session)
        body = {"session_id": session, "observation": self.observation, "tools": [STEP], "env": row.get("env")}
        return web.json_response(body, headers={"Set-Cookie": f"session={session}; Path=/; HttpOnly"})


@asynccontextmanager
async def fake_resources(**fields: Any) -> AsyncIterator[FakeResources]:
    server = FakeResources(**fields)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{path}", server.handle)
    async with serving(app) as url:
        server.url = url
        yield server
