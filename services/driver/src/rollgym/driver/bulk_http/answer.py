"""One answer while it comes in: its head, parsed by httptools, and its body in one buffer of the announced size."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import httptools

from rollgym.common.errors import PayloadTooLarge

_ZLIB_WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""Content codings that are undone, although none is asked for."""
MAX_HEAD_BYTES = 64 * 1024


class ExchangeError(Exception):
    """No usable answer came; the message says what came instead, for a person."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's status and its body, which nobody else holds."""

    status: int
    body: bytes | bytearray


class AnswerReader:
    """Takes in bytes until the answer is `complete`; a body of more than `limit_bytes` is refused.

    Bytes are handed over with `feed`, or, once `make_room` has made the buffer of an announced body, received into
    `rest` and counted with `filled`: so they are copied once.
    """

    __slots__ = (
        "_body", "_chunks", "_coding", "_filled", "_head_bytes", "_interim", "_limit_bytes", "_parser", "_received",
        "announced_bytes", "chunked", "complete", "head_read", "keep_alive", "status",
    )  # fmt: skip

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._body: bytearray | None = None
        self._chunks: list[bytes] = []
        self._coding = b""
        self._filled = self._head_bytes = self._received = 0
        self._interim = False
        self.announced_bytes: int | None = None
        self.chunked = self.complete = self.head_read = self.keep_alive = False
        self.status = 0

    def feed(self, data: memoryview) -> None:
        """Take in bytes from the start of the answer on. Raises ExchangeError, PayloadTooLarge."""
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                raise ExchangeError(f"the answer is no HTTP ({error})") from error
            self.keep_alive = False  # more came than was asked for
        if not self.head_read:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                raise ExchangeError(f"the answer's head is longer than {MAX_HEAD_BYTES} bytes")
        size = max(self._received, self.announced_bytes or 0)
        if size > self._limit_bytes:
            raise _too_large(size, self._limit_bytes)
        if self.complete or (self.head_read and self.announced_bytes is not None):
            self._parser = None  # the rest, if any, goes where `make_room` says

    def make_room(self) -> None:
        """Make the buffer of an announced body, with what has come of it. One that comes in chunks needs none."""
        if self.announced_bytes is None or self._body is not None:
            return
        begun = b"".join(self._chunks)
        self._chunks = []
        self._body = bytearray(self.announced_bytes)
        self._body[: len(begun)] = begun
        self._filled = len(begun)

    @property
    def has_room(self) -> bool:
        """Whether the body goes into `rest`, no longer through `feed`."""
        return self._body is not None

    @property
    def rest(self) -> memoryview:
        """Where the rest of the body goes."""
        assert self._body is not None
        return memoryview(self._body)[self._filled :]

    def filled(self, count: int) -> None:
        """So many bytes were received into `rest`."""
        assert self._body is not None
        self._filled += count
        self.complete = self._filled == len(self._body)

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has no length and no chunks: then the server closes the connection at its end."""
        return self.head_read and not self.chunked and self.announced_bytes is None

    def answer(self) -> Answer:
        """The complete answer. Raises ExchangeError for a body in a coding that is none, PayloadTooLarge."""
        body: bytes | bytearray = b"".join(self._chunks) if self._body is None else self._body
        return Answer(self.status, body if self._coding in (b"", b"identity") else self._decoded(body))

    def _decoded(self, body: bytes | bytearray) -> bytes:
        window = _ZLIB_WINDOWS.get(self._coding)
        if window is None:
            raise ExchangeError(f"the answer has an unknown content coding: {self._coding.decode(errors='replace')}")
        try:
            decoder = zlib.decompressobj(window)
            decoded = decoder.decompress(body, self._limit_bytes + 1)
        except zlib.error as error:
            raise ExchangeError(f"the answer is no {self._coding.decode()} ({error})") from error
        if len(decoded) > self._limit_bytes:
            raise _too_large(len(decoded), self._limit_bytes)
        if not decoder.eof:
            raise ExchangeError("the answer broke off")
        return decoded

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length":
            self.announced_bytes = int(value)
        elif name == b"transfer-encoding":
            self.chunked = True
        elif name == b"content-encoding":
            self._coding = value.strip().lower()

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self._interim = self.status < 200
        if self._interim:  # "100 Continue" and its like: the answer follows
            self.announced_bytes, self.chunked, self._coding = None, False, b""
        else:
            self.head_read = True
            self.keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._received += len(data)
        self._chunks.append(data)

    def on_message_complete(self) -> None:
        self.complete = not self._interim


def _too_large(size: int, limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the agent's answer is larger than {limit_bytes} bytes",
        received_bytes=size,
        limit_bytes=limit_bytes,
        terminal=True,
    )
