"""A bound on the bytes of payloads that are in memory at once: results from the socket to the file, rows being sent.

When a thousand agents answer in the same moment, the disk stalls, or an agent is slow to read, payloads wait in the
kernel's buffers or on disk instead of on our heap. None counts for more than a part of the bound, one that hardly moves
is soon counted no more, and room goes to the server whose payloads have the least of it: so a slow server holds up the
others for no time, and its own payloads not for long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self

from rollgym.driver.shared_timer import SharedTimer

LIMIT_BYTES = 8 * 1024 * 1024
"""Enough to keep loop and disk busy, and so little that a short run fills it as a long one does."""
LOOKED_AT_EVERY_S = 1.0
MOST_LOOKS = 10
LARGEST_SHARE = 8
"""No payload counts for more than an eighth of the bound. A server that has less than that waits for no other."""
UNANNOUNCED_BYTES = 512 * 1024
"""What an answer without Content-Length is counted as."""


class Reservation:
    """What one payload holds, given back at the end of a `with` block; `take` is called once.

    While the payload is on its way it is looked at every second. One of which not a tenth has moved since the last look
    counts no more, nor one that is still on its way at the tenth. Once it has `arrived` it counts until it is given
    back.

    A thousand of them exist at a time: so each is one object, and no generator stands behind the block.
    """

    __slots__ = ("_held_bytes", "_looks", "_memory", "_moved", "_seen", "server")

    def __init__(self, memory: PayloadMemory) -> None:
        self._memory = memory
        self._held_bytes = self._looks = 0
        self._moved: Callable[[], int] | None = None
        self._seen = 0
        self.server = ""
        """Where the payload comes from or goes to: set before room is taken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    async def take(self, size: int | None) -> None:
        """Wait for room for `size` bytes (None: unknown) and hold it."""
        counted = self._counted(size)
        await self._memory.acquire(counted, self.server)
        self._hold(counted)

    def take_now(self, size: int | None) -> bool:
        """As `take`, where there is room at once and nobody waits; else False, and nothing is held."""
        counted = self._counted(size)
        if not self._memory.acquire_now(counted, self.server):
            return False
        self._hold(counted)
        return True

    def _counted(self, size: int | None) -> int:
        return min(UNANNOUNCED_BYTES if size is None else size, self._memory.limit_bytes // LARGEST_SHARE)

    def _hold(self, counted: int) -> None:
        self._held_bytes = counted
        if counted:
            self._memory.on_their_way.add(self)

    def watch(self, moved: Callable[[], int]) -> None:
        """The payload takes its time: `moved` tells how far it is, in bytes that change as it moves."""
        if self._held_bytes:
            self._moved, self._seen = moved, moved()

    def look(self) -> None:
        """Give back what a payload holds that hardly moves, or has moved for long enough."""
        self._looks += 1
        seen = self._seen if self._moved is None else self._moved()
        if abs(seen - self._seen) * MOST_LOOKS < self._held_bytes or self._looks == MOST_LOOKS:
            self.give_back()
        else:
            self._seen = seen
            self._memory.on_their_way.add(self)

    def arrived(self) -> None:
        """The payload is here whole, and nobody else's slowness can hold it any more."""
        self._moved = None
        self._memory.on_their_way.discard(self)

    def give_back(self) -> None:
        self._moved = None
        if self._held_bytes:
            held, self._held_bytes = self._held_bytes, 0
            self._memory.on_their_way.discard(self)
            self._memory.release(held, self.server)


class PayloadMemory:
    """The bytes in use, and who waits for some. Of one server's payloads the first to come is the first served."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, looked_at_every_s: float = LOOKED_AT_EVERY_S) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        """At most the limit, and what those servers have that have less than their due."""
        self._used_by: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self.on_their_way = SharedTimer[Reservation](looked_at_every_s, Reservation.look)
        """Who holds bytes and has not arrived, and when that is looked at."""

    def reservation(self) -> Reservation:
        """Room for one payload: nothing yet, until it is taken."""
        return Reservation(self)

    async def acquire(self, size: int, server: str) -> None:
        """Returns when there is room for `size` bytes and it is taken.

        When cancelled, nothing is taken, and the place in the queue is free.
        """
        if self.acquire_now(size, server):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(server, deque()).append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was granted in the same instant
                self.release(size, server)
            else:
                turn.cancel()
                self._let_in()
            raise

    def acquire_now(self, size: int, server: str) -> bool:
        """Take `size` bytes where there is room, and nobody waits who goes first."""
        free = not self._waiting and self._fits(size)
        if server in self._waiting or not (free or self._is_owed(server)):
            return False
        self._take(size, server)
        return True

    def release(self, size: int, server: str) -> None:
        """Give `size` bytes back, and let those go on who may now."""
        self.used_bytes -= size
        left = self._used_by.pop(server, 0) - size  # a server of empty payloads has no entry
        if left:
            self._used_by[server] = left
        self._let_in()

    def _let_in(self) -> None:
        """One after the other, each time of the server that has the least."""
        while self._waiting:
            server = min(self._waiting, key=lambda each: self._used_by.get(each, 0))
            queue = self._waiting[server]
            size, turn = queue[0]
            if not turn.done():
                if not (self._is_owed(server) or self._fits(size)):
                    return
                self._take(size, server)
                turn.set_result(None)
            queue.popleft()
            if not queue:
                del self._waiting[server]

    def _take(self, size: int, server: str) -> None:
        self.used_bytes += size
        if size:
            self._used_by[server] = self._used_by.get(server, 0) + size

    def _is_owed(self, server: str) -> bool:
        """Whether the server has less than its due, which it gets however full the memory is."""
        return self._used_by.get(server, 0) < self.limit_bytes // LARGEST_SHARE

    def _fits(self, size: int) -> bool:
        return self.used_bytes + size <= self.limit_bytes
