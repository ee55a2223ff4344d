"""An environment server that does what a test tells it to, in the test's own loop: any frame, late, cut or never."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

Frame = dict[str, Any]
CAPACITY = "CAPACITY_REACHED"


@dataclass
class Stats:
    """What the server saw. `active`: sessions that hold a slot now; `handshaking`: upgrades without an answer yet."""

    active: int = 0
    peak: int = 0
    opens: int = 0
    refused: int = 0
    resets: list[Frame] = field(default_factory=list)
    steps: list[Frame] = field(default_factory=list)
    closes: int = 0
    handshakes: list[float] = field(default_factory=list)
    handshaking: int = 0
    peak_handshaking: int = 0


@dataclass
class EnvServer:
    """Behaviour, changed at will while it runs. Texts are sent as they are; a hook replaces the default answer."""

    capacity: int | None = None
    rewards: tuple[Any, ...] = (1.0,)
    refusing: bool = False
    says_max: bool = True
    handshake_delay_s: float = 0.0
    drops_handshakes: bool = False
    answers_close: bool = True
    upgrade_status: int | None = None
    upgrade_headers: dict[str, str] = field(default_factory=dict)
    schemas: Frame | None = None
    answer: Callable[[Session, Frame], Awaitable[str | bytes | None]] | None = None
    on_reset: Callable[[Session], Awaitable[str | bytes | None]] | None = None
    on_step: Callable[[Session, Frame], Awaitable[str | bytes | None]] | None = None
    stats: Stats = field(default_factory=Stats)
    url: str = ""
    port: int = 0
    _server: Server | None = None

    async def start(self) -> None:
        self._server = await serve(
            self._handle,
            "127.0.0.1",
            self.port,
            process_request=self._upgrade,
            max_size=None,
            close_timeout=0.2,
            ping_interval=None,
            open_timeout=2,
            backlog=4096,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        """Every socket and the port go, as if the process had been killed."""
        if self._server is not None:
            for connection in list(self._server.connections):
                connection.transport.abort()
            self._server.close()
            await self._server.wait_closed()
            self._server = None
            self.stats.active = 0

    async def _upgrade(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/schema" and self.schemas is not None:
            return connection.respond(200, json.dumps(self.schemas))
        if request.path != "/ws":
            return connection.respond(404, "")
        if self.drops_handshakes:
            connection.transport.abort()
        await self._shaking_hands(connection)
        if self.upgrade_status is not None:
            response = connection.respond(self.upgrade_status, "not now")
            for name, value in self.upgrade_headers.items():
                response.headers[name] = value
            return response
        return None

    async def _shaking_hands(self, connection: ServerConnection) -> None:
        """Take as long as told, or until the client hangs up."""
        stats = self.stats
        stats.handshakes.append(asyncio.get_running_loop().time())
        stats.handshaking += 1
        stats.peak_handshaking = max(stats.peak_handshaking, stats.handshaking)
        try:
            await asyncio.wait({connection.connection_lost_waiter}, timeout=self.handshake_delay_s)
        finally:
            stats.handshaking -= 1

    async def _handle(self, connection: ServerConnection) -> None:
        stats = self.stats
        if self.refusing or (self.capacity is not None and stats.active >= self.capacity):
            stats.refused += 1
            counts = {"active_sessions": stats.active, "max_sessions": self.capacity} if self.says_max else {}
            await connection.send(error(CAPACITY, "Server at capacity", **counts))
            return
        stats.active += 1
        stats.opens += 1
        stats.peak = max(stats.peak, stats.active)
        try:
            await Session(self, connection, stats.opens).serve()
        except ConnectionClosed:
            pass
        finally:
            stats.active -= 1


@dataclass
class Session:
    """One socket's episode."""

    server: EnvServer
    connection: ServerConnection
    number: int
    steps: int = 0
    seed: Any = None

    async def serve(self) -> None:
        async for raw in self.connection:
            message = json.loads(raw)
            answer = await self._answer(message)
            if message["type"] == "close":
                self.server.stats.closes += 1
                if self.server.answers_close:
                    return
                await self.connection.wait_closed()
            if answer is not None:
                await self.connection.send(answer)

    async def _answer(self, message: Frame) -> str | bytes | None:
        server: EnvServer = self.server
        data: dict[str, Any] = message.get("data") or {}
        if server.answer is not None and message["type"] != "close":
            return await server.answer(self, message)
        if message["type"] == "reset":
            self.steps, self.seed = 0, data.get("seed")
            server.stats.resets.append(data)
            return await server.on_reset(self) if server.on_reset else observation({"seed": self.seed})
        if message["type"] == "step":
            if data.get("type") == "list_tools":
                return error("VALIDATION_ERROR", "no such action")
            self.steps += 1
            server.stats.steps.append(data)
            if server.on_step is not None:
                return await server.on_step(self, data)
            reward = server.rewards[min(self.steps, len(server.rewards)) - 1]
            return observation({"seed": self.seed, "n": self.steps}, reward, self.steps >= len(server.rewards))
        return None

    def abort(self) -> None:
        """The connection ends without a word."""
        self.connection.transport.abort()

    def reset_by_peer(self) -> None:
        """The connection ends with a TCP reset."""
        plain: socket.socket = self.connection.transport.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.transport.abort()


def observation(seen: Any, reward: Any = None, done: bool = False, **more: Any) -> str:
    return json.dumps({"type": "observation", "data": {"observation": seen, "reward": reward, "done": done, **more}})


def error(code: str, message: str, **data: Any) -> str:
    return json.dumps({"type": "error", "data": {"message": message, "code": code, **data}})


@asynccontextmanager
async def env_server(**behaviour: Any) -> AsyncIterator[EnvServer]:
    """A running server; stopped, sockets and all, at the end."""
    server = EnvServer(**behaviour)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
