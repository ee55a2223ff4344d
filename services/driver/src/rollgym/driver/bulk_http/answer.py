"""One answer while it comes in: its head, parsed by httptools, and its body in one buffer of the announced size."""

from __future__ import annotations

import zlib

import httptools
import msgspec

from rollgym.common.errors import PayloadTooLarge

_ZLIB_WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""Content codings that are undone, although none is asked for."""
_RAW_DEFLATE = -15
_ZLIB_METHOD = 8
MAX_HEAD_BYTES = 64 * 1024


class ExchangeError(Exception):
    """No usable answer came; the message says what came instead, for a person."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer's status and its body, which nobody else holds."""

    status: int
    body: bytes | bytearray


class AnswerReader:
    """Takes in bytes until the answer is `complete`; a body of more than `limit_bytes` is refused.

    Bytes are handed over with `feed`, or, once `make_room` has made the buffer of an announced body, received into
    `rest` and counted with `filled`: so they are copied once. `let_go` at the end, whatever became of it.
    """

    __slots__ = (
        "_body", "_chunks", "_coding", "_dry_bytes", "_filled", "_head_bytes", "_interim", "_limit_bytes", "_parser",
        "_received", "announced_bytes", "chunked", "complete", "head_read", "keep_alive", "status",
    )  # fmt: skip

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._body: bytearray | None = None
        self._chunks: list[bytes] = []
        self._coding = b""
        self._filled = self._head_bytes = self._dry_bytes = self._received = 0
        self._interim = False
        self.announced_bytes: int | None = None
        self.chunked = self.complete = self.head_read = self.keep_alive = False
        self.status = 0

    def feed(self, data: memoryview) -> None:
        """Take in bytes from the start of the answer on. Raises ExchangeError, PayloadTooLarge."""
        if self._parser is None:
            self.keep_alive = False  # more came than was asked for
            return
        received = self._received
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                raise _unreadable(error) from error
            self.keep_alive = False  # as above
        if not self.complete and self._received == received:
            self._dry_bytes += len(data)
        if self.complete or (self.head_read and self.announced_bytes is not None):
            self._parser = None  # what comes now goes into the buffer of the announced body
        self._check_sizes()

    def _check_sizes(self) -> None:
        if max(self._head_bytes, self._dry_bytes) > MAX_HEAD_BYTES:
            raise ExchangeError(f"the answer's head is longer than {MAX_HEAD_BYTES} bytes")
        size = self._received if self.complete else max(self._received, self.announced_bytes or 0)
        if size > self._limit_bytes:
            raise _too_large(size, self._limit_bytes)

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
        """Whether what comes next goes into `rest`, no longer through `feed`."""
        return self._body is not None and not self.complete

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

    def progress(self) -> int:
        """Bytes of the body that have come."""
        return self._received if self._body is None else self._filled

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has no length and no chunks: then the server closes the connection at its end."""
        return self.head_read and not self.chunked and self.announced_bytes is None

    def let_go(self) -> None:
        """Part with the parser, which points back here."""
        self._parser = None

    def answer(self) -> Answer:
        """The complete answer. Raises ExchangeError for a body in a coding that is none, PayloadTooLarge."""
        body: bytes | bytearray = b"".join(self._chunks) if self._body is None else self._body
        return Answer(self.status, self._decoded(body) if self._coding and body else body)

    def _decoded(self, body: bytes | bytearray) -> bytes:
        name, window = self._coding.decode(errors="replace"), _ZLIB_WINDOWS.get(self._coding)
        if window is None:
            raise ExchangeError(f"the answer has an unknown content coding: {name}")
        if self._coding == b"deflate" and body[0] & 0x0F != _ZLIB_METHOD:
            window = _RAW_DEFLATE  # as some servers understand the name
        decoder = zlib.decompressobj(window)
        try:
            decoded = decoder.decompress(body, self._limit_bytes + 1)
        except zlib.error as error:
            raise ExchangeError(f"the answer is no {name} ({error})") from error
        if len(decoded) > self._limit_bytes:
            raise _too_large(len(decoded), self._limit_bytes)
        if not decoder.eof or decoder.unused_data:
            raise ExchangeError(f"the answer's {name} {'goes on after its end' if decoder.eof else 'broke off'}")
        return decoded

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.complete:
            raise ExchangeError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self.head_read:
            return  # it stands behind the body
        name = name.lower()
        if name == b"content-length":
            self.announced_bytes = int(value)
        elif name == b"transfer-encoding":
            *codings, last = value.lower().split(b",")
            self.chunked = last.strip() == b"chunked"
            self._add_codings(codings if self.chunked else [*codings, last])
        elif name == b"content-encoding":
            self._add_codings(value.lower().split(b","))

    def _add_codings(self, codings: list[bytes]) -> None:
        named = [coding for coding in map(bytes.strip, codings) if coding not in (b"", b"identity")]
        self._coding = b", ".join(([self._coding] if self._coding else []) + named)

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status < 100 or self.status == 101:
            raise ExchangeError(f"the answer's status is {self.status}, which nobody can use here")
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


def _unreadable(error: Exception) -> ExchangeError:
    """What the parser's error says: our own, from a callback, or its."""
    own = error.__context__
    return own if isinstance(own, ExchangeError) else ExchangeError(f"the answer is no HTTP ({error})")


def _too_large(size: int, limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the agent's answer is larger than {limit_bytes} bytes",
        received_bytes=size,
        limit_bytes=limit_bytes,
        terminal=True,
    )
