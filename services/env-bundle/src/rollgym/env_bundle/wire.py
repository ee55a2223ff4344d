"""The transport under a WebSocket: raw frames, and the ways to end or to mute it that ASGI has no words for.

Uvicorn's sans-I/O protocol with three additions: it puts itself into the scope's extensions (`wire_of`), it tells when
the socket is lost, and it can misbehave on purpose.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

from starlette.types import Scope
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

EXTENSION = "rollgym.wire"
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


class Wire(WebSocketsSansIOProtocol):
    """One WebSocket connection. Everything it is told to do after the socket is gone does nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lost = False
        self._muted = False
        self._on_lost: Callable[[], None] | None = None

    # What the session asks for.

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call back once the socket is gone, at once if it is gone already."""
        self._on_lost = callback
        if self._lost:
            callback()

    async def send_frame(self, payload: bytes) -> None:
        """Send one text frame as it is, valid text or not. Raises ClientDisconnected when nobody is there."""
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected
        self.transport.write(self._framed(payload))

    async def send_part_of_frame(self, payload: bytes) -> None:
        """Send the first half of a frame, then drop the connection."""
        await self.writable.wait()
        if not self.disconnected:
            framed = self._framed(payload)
            self.transport.write(framed[: max(1, len(framed) // 2)])
        self.drop()

    def send_part_of_handshake(self) -> None:
        """Send the beginning of the upgrade's answer, then drop the connection."""
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: webso")
        self.drop()

    def drop(self) -> None:
        """Close the TCP connection without a close frame, after what was written."""
        self._nothing_more()
        self.transport.close()

    def reset_by_peer(self) -> None:
        """Close the TCP connection with a RST: the client sees its connection reset."""
        own = self.transport.get_extra_info("socket")
        if own is not None and not self.transport.is_closing():
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self._nothing_more()
        self.transport.abort()

    def abandon_after(self, seconds: float) -> None:
        """Cut the connection if it is still there then: a close handshake that the client does not finish."""
        self.loop.call_later(seconds, self.transport.abort)

    def mute(self) -> None:
        """From now on read nothing, answer no ping and no close, send no ping: a peer behind a dead link."""
        self._muted = True
        self.stop_keepalive()
        if self.read_paused:  # what arrives is thrown away, but the client's leaving must be noticed
            self.read_paused = False
            self.transport.resume_reading()

    # What uvicorn calls.

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            cast(dict[str, Any], self.scope["extensions"])[EXTENSION] = self

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # refused is answered: uvicorn 0.54 would log that nobody answered

    def data_received(self, data: bytes) -> None:
        if not self._muted:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        if self._on_lost is not None:
            self._on_lost()

    def shutdown(self) -> None:
        if self._muted:
            self.transport.abort()
        else:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # a peer that is gone never drains what waits for it, and close() would wait for that

    def _nothing_more(self) -> None:
        """Tell the protocol that its part is over, so that it neither answers the upgrade nor says goodbye."""
        self.handshake_complete = True
        self.close_sent = True
        self.stop_keepalive()

    def _framed(self, payload: bytes) -> bytes:
        try:
            self.conn.send_text(payload)
        except InvalidState as closing:
            raise ClientDisconnected from closing
        return b"".join(self.conn.data_to_send())


def wire_of(scope: Scope) -> Wire:
    """The connection that a scope came over; this process's server puts it there."""
    wire: Wire = scope["extensions"][EXTENSION]
    return wire


async def until_lost(duration_s: float) -> None:
    """Wait: for `duration_s` seconds, or for ever where it is 0. The session is cancelled when its socket is lost."""
    if duration_s > 0:
        await asyncio.sleep(duration_s)
    else:
        await asyncio.Event().wait()
