"""Connections to agent servers: opened when a request needs one, kept for the next, closed when idle."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from types import TracebackType
from typing import Self

import aiohappyeyeballs

from rollgym.common.binding import keep_alive
from rollgym.driver.bulk_http.answer import Answer, ExchangeError
from rollgym.driver.bulk_http.connection import SCRATCH_BYTES, TLS_SCRATCH_BYTES, Connection, OutgoingBody
from rollgym.driver.bulk_http.target import Target
from rollgym.driver.http_client import CONNECT_TIMEOUT_S, KEEPALIVE_S, UNACKNOWLEDGED_S
from rollgym.driver.payload_memory import Reservation

_ADDRESSES_KEPT_S = 60.0
_EYEBALLS_DELAY_S = 0.25
_TAKEN_IN_BYTES = 512 * 1024
"""So much of an answer the kernel takes in from a connection's first on, or twice as much; of later ones what it has
seen that they need."""
_Addresses = list[aiohappyeyeballs.AddrInfoType]


class BulkClient:
    """Posts bodies of JSON. One for each run: an asynchronous context manager, for one event loop.

    No limit of connections (concurrency is admission's business), no redirects, no cookies, no total time limit
    (callers bound their calls), and never a request sent twice.
    """

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._tls: tuple[ssl.SSLContext, memoryview] | None = None
        self._targets: dict[str, Target] = {}
        self._addresses: dict[tuple[str, int], tuple[_Addresses, float]] = {}
        self._idle: dict[tuple[str, int, bool], deque[Connection]] = {}
        self._expiry: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes sockets in its next turn

    async def post(self, url: str, body: OutgoingBody, memory: Reservation, limit_bytes: int) -> Answer:
        """Send `body` and return the answer, whatever its status. Raises what `Connection.exchange` does.

        And OSError where no connection can be made.
        """
        target = self._targets.get(url)
        if target is None:
            target = self._targets[url] = Target.of(url)
        head = b"%sContent-Length: %d\r\n\r\n" % (target.head, body.size)
        connection = self._kept(target) or await self._connect(target)
        if not body.room_now():
            self._keep(target, connection)
            await body.room()
            connection = self._kept(target) or await self._connect(target)
        try:
            return await connection.exchange(head, body, memory, limit_bytes)
        finally:
            if connection.reusable:
                self._keep(target, connection)

    async def _connect(self, target: Target) -> Connection:
        loop = asyncio.get_running_loop()
        tls, scratch = self._tls_parts() if target.secure else (None, self._scratch)
        limit = asyncio.timeout(CONNECT_TIMEOUT_S)
        try:
            async with limit:
                addresses = await self._resolve(target)
                connected = await aiohappyeyeballs.start_connection(
                    addresses, happy_eyeballs_delay=_EYEBALLS_DELAY_S if len(addresses) > 1 else None
                )
                keep_alive(connected, UNACKNOWLEDGED_S)
                _make_room(connected)
                _, connection = await loop.create_connection(
                    lambda: Connection(scratch, connected),
                    sock=connected,
                    ssl=tls,
                    server_hostname=target.host if tls else None,
                )
        except (OSError, UnicodeError) as error:
            self._addresses.pop((target.host, target.port), None)
            if limit.expired():
                raise ExchangeError(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
            if isinstance(error, UnicodeError):
                raise ExchangeError(f"{target.host} is no host name") from error
            raise
        return connection

    async def _resolve(self, target: Target) -> _Addresses:
        """The host's addresses. Names are looked up once a minute, and anew after a connection that failed."""
        loop = asyncio.get_running_loop()
        found: _Addresses
        found, known_until = self._addresses.get((target.host, target.port), ([], 0.0))
        if loop.time() >= known_until:
            found = list(await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
            self._addresses[target.host, target.port] = found, loop.time() + _ADDRESSES_KEPT_S
        return found

    def _tls_parts(self) -> tuple[ssl.SSLContext, memoryview]:
        """What connections by TLS share, made for the first of them: it reads every certificate of the machine."""
        if self._tls is None:
            self._tls = ssl.create_default_context(), memoryview(bytearray(TLS_SCRATCH_BYTES))
        return self._tls

    def _kept(self, target: Target) -> Connection | None:
        """An idle connection to the target, the latest used first: it is the likeliest to be alive."""
        idle = self._idle.get(target.place, ())
        while idle:
            connection = idle.pop()
            if connection.reusable and connection.quiet:
                return connection
            connection.abort()
        return None

    def _keep(self, target: Target, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(target.place, deque()).append(connection)
        if self._expiry is None:
            self._expiry = loop.call_later(KEEPALIVE_S, self._expire)

    def _expire(self) -> None:
        """Close what was idle for too long, and come back when the next one is due."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() - KEEPALIVE_S
        for idle in self._idle.values():
            while idle and (idle[0].idle_since <= due_at or not idle[0].reusable):
                idle.popleft().abort()
        oldest = min((idle[0].idle_since for idle in self._idle.values() if idle), default=None)
        self._expiry = None if oldest is None else loop.call_at(oldest + KEEPALIVE_S, self._expire)


def _make_room(connected: socket.socket) -> None:
    """Have the kernel's receive buffer hold a usual answer, which else comes in pieces, as its reader takes them.

    A buffer begins small (128 KB) and grows by what earlier answers needed. Asking to be woken only by so many bytes
    (`SO_RCVLOWAT`) has Linux make room for them, where `SO_RCVBUF` would keep the buffer from growing on. Then any byte
    wakes us again. Raises OSError, and closes, where that cannot be had: a small answer would be waited for for ever.
    """
    try:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _TAKEN_IN_BYTES)
    except OSError:
        return
    try:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    except OSError:
        connected.close()
        raise
