"""One HTTP/1.1 connection to an agent server: one request at a time.

A connection that waits for an answer holds no buffer and no parser. An answer's body is received once there is room for
it in memory, and waits in the kernel until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import socket
from collections.abc import Callable
from typing import Protocol, cast

from rollgym.common.errors import PayloadTooLarge
from rollgym.driver.bulk_http.answer import Answer, AnswerReader, ExchangeError
from rollgym.driver.file_range import FileRange
from rollgym.driver.payload_memory import Reservation

SCRATCH_BYTES = 64 * 1024
"""Where heads, and bodies without a length, are received. Emptied at once, so all connections of a loop share one."""
TLS_SCRATCH_BYTES = 1024 * 1024
"""More than asyncio's TLS holds back: when a connection ends, what is not taken at once is lost."""
_HEAD_BYTES = 4 * 1024
"""So much is received of an answer before anyone has counted its body."""
_RECEIVED_AT_ONCE = 4
"""So many times a body is received in one turn of the loop."""
_NO_ANSWER = "the server closed the connection without an answer"


def sends_files(system: str, release: str) -> bool:
    """Whether bodies go from their files inside the kernel: on Linux but for 6.5.

    There `sendfile` waits for a server that does not read, although the socket is one that nobody waits for.
    """
    return system == "Linux" and not re.match(r"6\.5\b", release)


_SENDS_FILES = sends_files(platform.system(), platform.release())


class OutgoingBody(Protocol):
    """A request's body, read when it is sent, and not kept."""

    @property
    def size(self) -> int:
        """Bytes that `read` returns."""

    def room_now(self) -> bool:
        """Take room for it in memory, where there is some at once."""

    async def room(self) -> None:
        """Take room for it in memory, as soon as there is some."""

    def in_file(self) -> FileRange | None:
        """Where the kernel finds just what `read` returns; None where that has to be made."""

    def read(self) -> bytes: ...

    def watch(self, moved: Callable[[], int]) -> None:
        """Called where the kernel does not take all of it at once: `moved` changes with each byte that it takes."""

    def sent(self) -> None:
        """Called as soon as the kernel has all of it, or TLS has encrypted it."""


class Connection(asyncio.BufferedProtocol):
    """What `create_connection` makes. `exchange` as often as it is `reusable`, then `abort`."""

    __slots__ = (
        "_limit_bytes",
        "_memory",
        "_needs_room",
        "_outgoing",
        "_problem",
        "_reader",
        "_scratch",
        "_secure",
        "_send_error",
        "_sending",
        "_socket",
        "_transport",
        "_under_way",
        "_waiter",
        "idle_since",
    )  # fmt: skip

    def __init__(self, scratch: memoryview, connected: socket.socket) -> None:
        self._scratch = scratch
        self._socket = connected
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._reader: AnswerReader | None = None
        self._memory: Reservation | None = None
        self._outgoing: OutgoingBody | None = None
        self._problem: Exception | None = None
        self._send_error: OSError | None = None
        self._limit_bytes = 0
        self._sending = self._under_way = self._needs_room = False
        self._secure = False
        self.idle_since = 0.0
        """When its last exchange ended, in the loop's time."""

    @property
    def reusable(self) -> bool:
        """Whether another exchange may follow: the last one is over, and both sides want to go on."""
        return self._transport is not None and not (self._transport.is_closing() or self._under_way)

    @property
    def quiet(self) -> bool:
        """Whether nothing has come since the last exchange, not even the end, that the loop has not come to yet."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    async def exchange(self, head: bytes, body: OutgoingBody, memory: Reservation, limit_bytes: int) -> Answer:
        """Send a request and read its answer, the body once `memory` has room for it.

        Raises ExchangeError where no answer comes or it is no HTTP, PayloadTooLarge where its body passes
        `limit_bytes`. After an error, a cancellation, or the server's last answer, the connection is closed.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ExchangeError(_NO_ANSWER)
        self._memory, self._limit_bytes, self._outgoing = memory, limit_bytes, body
        self._reader = self._problem = self._send_error = None
        self._needs_room, self._under_way = False, True
        try:
            self._send(transport, head, body)
            while (reader := self._complete_reader()) is None:
                if self._needs_room:
                    await memory.take(self._announced_bytes)
                    self._go_on(memory)
                else:
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
            memory.arrived()
            answer = reader.answer()
            self._under_way = self._sending or not reader.keep_alive
            return answer
        finally:
            if self._under_way:
                self.abort()
            if self._reader is not None:
                self._reader.let_go()
            self._reader = self._memory = self._outgoing = self._problem = self._waiter = None

    def _send(self, transport: asyncio.Transport, head: bytes, body: OutgoingBody) -> None:
        taken = self._send_from_file(head, body)
        if taken == len(head) + body.size:
            self._tell_sent()
            return
        content = body.read()
        rest = (memoryview(head)[taken:], memoryview(content)[max(0, taken - len(head)) :])
        transport.writelines([part for part in rest if part])  # asyncio would try to send nothing for ever
        if transport.get_write_buffer_size() and not self._sending:
            transport.set_write_buffer_limits(high=0)  # what has it look: in Python 3.12 and 3.13 writelines does not
        if self._sending:
            body.watch(transport.get_write_buffer_size)
        else:
            self._tell_sent()

    def _tell_sent(self) -> None:
        """Once for each body: a transport may have paused and resumed writing before `_send` comes to that."""
        outgoing, self._outgoing = self._outgoing, None
        if outgoing is not None:
            outgoing.sent()

    def _send_from_file(self, head: bytes, body: OutgoingBody) -> int:
        """Have the kernel take head and body as they lie in the page cache; how many bytes it took.

        Whatever it does not take is the transport's to send, and what is wrong, the transport's to notice.
        """
        if self._secure or not (_SENDS_FILES and body.size) or (file := body.in_file()) is None:
            return 0
        taken = 0
        try:
            taken = self._socket.send(head, socket.MSG_MORE)
            if taken == len(head):
                taken += os.sendfile(self._socket.fileno(), file.descriptor, file.offset, file.size)
        except (ConnectionError, TimeoutError) as error:
            self._send_error = error  # the transport only sees that the connection is no more
        except OSError:
            pass
        return taken

    def _complete_reader(self) -> AnswerReader | None:
        """The reader of a complete answer, None while more has to come. Raises the exchange's problem."""
        if self._problem is not None:
            raise self._problem
        return self._reader if self._reader is not None and self._reader.complete else None

    @property
    def _announced_bytes(self) -> int | None:
        return None if self._reader is None else self._reader.announced_bytes

    def _go_on(self, memory: Reservation) -> None:
        """There is room for the body, which waits in the kernel."""
        assert self._reader is not None
        self._needs_room = False
        self._receive(self._reader, memory)
        if self._transport is not None:
            self._transport.resume_reading()

    def _receive(self, reader: AnswerReader, memory: Reservation) -> None:
        """Begin with a body that there is room for."""
        reader.make_room()
        self._take_rest(reader)
        if not reader.complete:
            memory.watch(reader.progress)

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        # Writing pauses as soon as anything is left to send. With a limit of 0, asyncio's TLS would pause for nothing.
        self._secure = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(high=1 if self._secure else 0)
        self._transport = transport

    def pause_writing(self) -> None:
        self._sending = True

    def resume_writing(self) -> None:
        self._sending = False
        self._tell_sent()

    def get_buffer(self, sizehint: int) -> memoryview:
        reader = self._reader
        if reader is None:
            return self._scratch[:_HEAD_BYTES]
        return reader.rest if reader.has_room else self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        if not self._under_way:
            self.abort()  # nobody asked
            return
        if self._problem is not None:
            return
        reader = self._reader
        if reader is None:
            reader = self._reader = AnswerReader(self._limit_bytes)
        if reader.has_room:
            reader.filled(nbytes)
            self._take_rest(reader)
        else:
            begun = reader.head_read
            try:
                reader.feed(self._scratch[:nbytes])
            except (ExchangeError, PayloadTooLarge) as error:
                self._fail(error)
                return
            if reader.head_read and not begun and not reader.complete:
                self._begin_body(reader)
        if reader.complete:
            self._wake()

    def _take_rest(self, reader: AnswerReader) -> None:
        """Receive what is here of an announced body, now: in a busy loop the next turn of this socket comes late.

        Each call makes room in the kernel for more, which a near server sends at once. An end is the transport's to
        notice; an error is told once, here.
        """
        if self._secure:
            return
        try:
            for _ in range(_RECEIVED_AT_ONCE):
                if not reader.has_room:
                    return
                reader.filled(self._socket.recv_into(reader.rest))
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(error)

    def _begin_body(self, reader: AnswerReader) -> None:
        assert self._memory is not None
        assert self._transport is not None
        if self._memory.take_now(reader.announced_bytes):
            self._receive(reader, self._memory)
        else:
            self._needs_room = True
            self._transport.pause_reading()
            self._wake()

    def _fail(self, problem: Exception) -> None:
        self._problem = problem
        self._wake()

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._take_what_came()
        self._transport = None
        self._sending = False
        self._end(self._send_error or exc)

    @property
    def _awaits_more(self) -> bool:
        return self._under_way and self._problem is None and not (self._reader is not None and self._reader.complete)

    def _take_what_came(self) -> None:
        """An answer may be here although the request could not be sent: the server said why, and left.

        Now or never, so also where there is no room for it.
        """
        if self._secure:
            return
        with contextlib.suppress(OSError):
            while self._awaits_more:
                if self._needs_room and self._reader is not None:
                    self._reader.make_room()
                count = self._socket.recv_into(self.get_buffer(-1))
                if not count:
                    return
                self.buffer_updated(count)

    def _end(self, exc: Exception | None) -> None:
        """Nothing more comes: that completes an answer, or is the exchange's problem."""
        if not self._awaits_more:
            return
        reader, said = self._reader, "" if exc is None else str(exc) or type(exc).__name__
        if reader is None or not reader.head_read:
            self._fail(ExchangeError(said or _NO_ANSWER))
        elif exc is None and reader.ends_with_connection:
            reader.complete = True
            self._wake()
        else:
            self._fail(ExchangeError(f"the answer broke off{said and f': {said}'}"))
