"""Whose turn it is on a session: calls are served one at a time, in order of arrival, and not too many wait."""

from __future__ import annotations

import asyncio

from rollgym.common.errors import SessionQueueFull

QUEUE_LIMIT = 64


class Turns:
    """The queue of one session, and how long nobody has been in it."""

    __slots__ = ("_in_flight", "_last_left", "_lock")

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._in_flight = 0
        self._last_left = asyncio.get_running_loop().time()

    async def take(self) -> None:
        """Wait for one's turn, which `end` ends. Raises SessionQueueFull where too many wait already."""
        if self._in_flight > QUEUE_LIMIT:
            raise SessionQueueFull(f"{QUEUE_LIMIT} calls wait on this session already", limit=QUEUE_LIMIT)
        await self._acquire()

    async def take_within(self, timeout_s: float) -> bool:
        """Wait for one's turn however many wait, but not for longer than this; False where it did not come."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._acquire()
        except TimeoutError:
            return False
        return True

    async def _acquire(self) -> None:
        self._in_flight += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._leave()
            raise

    def end(self) -> None:
        """The turn is over; the next one's begins."""
        self._lock.release()
        self._leave()

    def restart_idling(self) -> None:
        """Count idle time from now."""
        self._last_left = asyncio.get_running_loop().time()

    def idle_s(self) -> float:
        """Seconds since the last one left; 0 while somebody is served or waits."""
        return 0.0 if self._in_flight else asyncio.get_running_loop().time() - self._last_left

    def _leave(self) -> None:
        self._in_flight -= 1
        self.restart_idling()
