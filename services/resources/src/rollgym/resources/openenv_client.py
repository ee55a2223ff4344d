"""One WebSocket to an environment server, which is one session and one episode there.

An answer belongs to the request before it, so a request that got none ends the socket: what came late could be taken
for the answer to the next one. Nothing here is ever sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from rollgym.common.binding import keep_alive
from rollgym.resources import frames
from rollgym.resources.frames import ErrorFrame, Observation

UNACKNOWLEDGED_S = 60
# One answer is due at a time: a server that sends more is held back early.
UNREAD_FRAMES = 4


@dataclass(frozen=True)
class SocketLimits:
    """Bounds of every socket: largest frame in bytes, seconds for a close's handshake."""

    max_frame_bytes: int
    close_timeout_s: float


class WatchedConnection(ClientConnection):
    """A connection that says when it ended, without a task that waits for it."""

    on_lost: Callable[[], None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.on_lost is not None:
            on_lost, self.on_lost = self.on_lost, None
            on_lost()


class EpisodeSocket:
    """An open socket. `drop` and `close` may be called at any time and more than once."""

    __slots__ = ("_connection",)

    def __init__(self, connection: WatchedConnection) -> None:
        self._connection = connection

    @classmethod
    async def connected(cls, url: str, limits: SocketLimits, timeout_s: float) -> EpisodeSocket:
        """Open a socket. Raises whatever the handshake met: `verdicts.judge` reads it."""
        tls: dict[str, Any] = {"ssl": _tls()} if url.startswith("wss:") else {}
        connection = await connect(
            url,
            compression=None,  # frames are small or already local; a deflate context costs more memory than a session
            proxy=None,
            open_timeout=timeout_s,
            close_timeout=limits.close_timeout_s,
            ping_interval=None,  # `keepalive.Keepalive` pings all sessions from one task
            max_size=limits.max_frame_bytes,
            max_queue=UNREAD_FRAMES,
            user_agent_header="rollgym-resources",
            create_connection=WatchedConnection,
            **tls,
        )
        assert isinstance(connection, WatchedConnection)
        keep_alive(connection.transport.get_extra_info("socket"), UNACKNOWLEDGED_S)
        return cls(connection)

    @property
    def is_open(self) -> bool:
        return self._connection.state is State.OPEN

    @property
    def has_unread_frame(self) -> bool:
        """Whether the server sent something that nobody asked for: it would be taken for the next answer."""
        return len(self._connection.recv_messages.frames) > 0

    def on_lost(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` once when the connection has ended, whoever ended it."""
        self._connection.on_lost = callback

    async def request(self, frame: bytes, timeout_s: float) -> Observation | ErrorFrame:
        """Send one frame, return its answer.

        Raises TimeoutError, ConnectionClosed, or EnvProtocolError; after any of them, and when cancelled, the socket
        is dropped.
        """
        try:
            async with asyncio.timeout(timeout_s):
                # Where the server's close won the race, what it said before that is still to be read.
                with contextlib.suppress(ConnectionClosed):
                    await self._connection.send(frame, text=True)
                raw = await self._connection.recv(decode=False)
            answer = frames.decode(raw)
        except BaseException:
            self.drop()
            raise
        if isinstance(answer, ErrorFrame) and answer.ends_session:
            self.drop()
        return answer

    async def pinged(self) -> asyncio.Future[float]:
        """Send a ping; the future ends with its pong, or with the connection. Raises ConnectionClosed."""
        return asyncio.ensure_future(await self._connection.ping())

    def drop(self) -> None:
        """End the connection now, without a handshake."""
        with contextlib.suppress(AttributeError):  # a transport that is gone already
            self._connection.transport.abort()

    async def close(self, timeout_s: float) -> bool:
        """Say goodbye and wait until the server has let go, `timeout_s` at most; then drop the socket.

        The server frees the episode before it closes its end, so a True return means that its slot is free. Never
        raises but for cancellation, which drops the socket too.
        """
        try:
            async with asyncio.timeout(timeout_s):
                with contextlib.suppress(ConnectionClosed):
                    await self._connection.send(frames.CLOSE, text=True)
                await self._connection.wait_closed()
        except TimeoutError:
            return False
        finally:
            self.drop()
        return True


@functools.cache
def _tls() -> ssl.SSLContext:
    """One context for all sockets: building one reads every certificate of the machine."""
    return ssl.create_default_context()
