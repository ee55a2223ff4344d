"""The least HTTP/1.1 server that a stand-in needs: whole requests in, pieces of bytes out, nothing copied twice.

A framework would cost more than the driver that it is to load. Not for the open network: no limits, no TLS.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import uvloop

from rollgym.common.binding import BACKLOG, address, bind, raise_open_file_limit, url_of
from rollgym.common.errors import ConfigurationError

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_REASONS = {200: b"OK", 204: b"No Content", 404: b"Not Found", 500: b"Internal Server Error"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read to its end."""

    method: str
    path: str
    body: bytes


class Connection(asyncio.Protocol):
    """One client. Requests are served one at a time; an answer may come much later."""

    def __init__(self, handle: Callable[[Connection, Request], None]) -> None:
        self._handle = handle
        self._received = bytearray()
        self._needed = 0
        self._head_end = -1
        self._busy = False
        self._chunked = False
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1 << 24)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._busy and len(self._received) >= self._needed:
            self._take()

    def _take(self) -> None:
        """Hand over the next request, if it is there whole."""
        if self._head_end < 0:
            self._head_end = self._received.find(_HEAD_END)
            if self._head_end < 0:
                return
            found = _CONTENT_LENGTH.search(self._received, 0, self._head_end)
            self._needed = self._head_end + len(_HEAD_END) + (int(found[1]) if found else 0)
            self._chunked = _CHUNKED.search(self._received, 0, self._head_end) is not None
        if self._chunked and not self._join_chunks():
            return
        if len(self._received) < self._needed:
            return
        method, path, _ = bytes(self._received[: self._received.index(b"\r")]).decode("latin-1").split(" ", 2)
        body = bytes(self._received[self._head_end + len(_HEAD_END) : self._needed])
        del self._received[: self._needed]
        self._needed, self._head_end, self._busy, self._chunked = 0, -1, True, False
        self._handle(self, Request(method, path, body))

    def _join_chunks(self) -> bool:
        """Take the sizes out of a body in chunks, as far as it is here; says whether that is all of it."""
        received = self._received
        while (line_end := received.find(_LINE_END, self._needed)) >= 0:
            size = int(received[self._needed : line_end].partition(b";")[0], 16)
            start = line_end + len(_LINE_END)
            end = start + size
            if len(received) < end + len(_LINE_END):
                return False
            del received[end : end + len(_LINE_END)]
            del received[self._needed : start]
            self._needed += size
            if not size:
                return True
        return False

    def reply(self, pieces: Sequence[bytes], *, status: int = 200) -> None:
        """Answer with a JSON body, given in pieces; to a client that left, nothing."""
        self._busy = False
        if self._transport is None or self._transport.is_closing():
            return
        length = sum(map(len, pieces))
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
            status,
            _REASONS[status],
            length,
        )
        self._transport.writelines([head, *pieces])
        if self._received:
            self._take()

    def reply_json(self, value: Any, *, status: int = 200) -> None:
        self.reply([] if status == 204 else [json.dumps(value).encode()], status=status)


def serve(
    name: str,
    port: int,
    start: Callable[[str], Callable[[Connection, Request], None]],
    *,
    exit_with_parent: bool = False,
) -> int:
    """Serve on loopback until SIGTERM or SIGINT; says where on the first line. `start(url)` gives the handler.

    With `exit_with_parent` the end of standard input is an end, too: it comes however the parent ends.
    """
    raise_open_file_limit()
    try:
        listener = bind("127.0.0.1", port)
    except ConfigurationError as error:
        print(f"{name}: {error.message}", file=sys.stderr)
        return 2

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if exit_with_parent:
            loop.add_reader(sys.stdin.fileno(), stop.set)
        url = url_of(*address(listener))
        handle = start(url)
        server = await loop.create_server(lambda: Connection(handle), sock=listener, backlog=BACKLOG)
        print(f"{name} listening on {url}", flush=True)
        await stop.wait()
        server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return 0
