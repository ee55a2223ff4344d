"""A bound on the bytes of results that are in memory at once, from the socket to the file.

When a thousand agents answer in the same moment, or the disk stalls, answers wait in the kernel's buffers instead of
on our heap. The bound is soft: whoever has waited for a second goes on, so that slow answers never hold up others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator

LIMIT_BYTES = 48 * 1024 * 1024
PATIENCE_S = 1.0
UNANNOUNCED_BYTES = 512 * 1024
"""What an answer without Content-Length is counted as."""


class Reservation:
    """What one attempt holds. `take` may be called several times; all is given back with the reservation."""

    def __init__(self, memory: PayloadMemory) -> None:
        self._memory = memory
        self.held_bytes = 0

    async def take(self, size: int | None) -> None:
        """Reserve room for an answer of `size` bytes, waiting for it, but never for more than a second."""
        wanted = UNANNOUNCED_BYTES if size is None else size
        await self._memory.room_for(wanted)
        self.held_bytes += wanted
        self._memory.used_bytes += wanted


class PayloadMemory:
    """The bytes in use, and who waits for some; first come, first served."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, patience_s: float = PATIENCE_S) -> None:
        self.limit_bytes, self.patience_s = limit_bytes, patience_s
        self.used_bytes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @contextlib.contextmanager
    def reservation(self) -> Iterator[Reservation]:
        held = Reservation(self)
        try:
            yield held
        finally:
            self.used_bytes -= held.held_bytes
            self._wake()

    async def room_for(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self.patience_s):
                await turn
        except TimeoutError:
            pass  # soft: better a little more memory than one rollout that waits for another
        finally:
            if not turn.done():
                turn.cancel()
            self._wake()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self.limit_bytes

    def _wake(self) -> None:
        """Let the first waiter go on where there is any room; whoever goes on wakes the next."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        if self._waiting and self.used_bytes < self.limit_bytes:
            self._waiting.popleft().set_result(None)
