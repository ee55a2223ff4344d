"""An HTTP/1.1 client that costs next to nothing: the load generator must not be what is measured."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from urllib.parse import urlsplit


class RawClient(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None
        self._transport: asyncio.Transport | None = None
        self._host = b""

    @classmethod
    async def connected(cls, url: str) -> RawClient:
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(cls, parts.hostname or "", parts.port or 80)
        client._host = parts.netloc.encode()
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = bytes(self._buffer[:end]).lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 : (head.find(b"\r\n", at) + 1 or len(head) + 1) - 1]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        raw_head = bytes(self._buffer[:end])
        del self._buffer[: end + 4 + length]
        answer, self._answer = self._answer, None
        answer.set_result((int(head[9:12]), raw_head, body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server closed the connection"))

    async def post(self, path: str, body: bytes = b"", headers: bytes = b"") -> tuple[int, bytes, bytes]:
        """Status, raw head, body."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n%b\r\n%b"
            % (path.encode(), self._host, len(body), headers, body)
        )
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def header(head: bytes, name: bytes) -> str:
    """A header's value in a raw head."""
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode()
    return ""


def as_json(body: bytes) -> Any:
    return json.loads(body)
