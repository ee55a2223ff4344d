"""One timer for many items that all wait for the same time: a thousand timers would be five thousand objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedTimer(Generic[T]):
    """Calls `expired(item)` on the loop for every item that is still in after `after_s` seconds."""

    def __init__(self, after_s: float, expired: Callable[[T], None]) -> None:
        self._after_s, self._expired = after_s, expired
        self._due_at: dict[T, float] = {}  # the earliest first, since all wait for the same time
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: T) -> None:
        """From now on the item's time runs. An item is in once; it can be added anew when it is out."""
        loop = asyncio.get_running_loop()
        self._due_at[item] = loop.time() + self._after_s
        if self._timer is None:
            self._timer = loop.call_later(self._after_s, self._ring)

    def discard(self, item: T) -> None:
        self._due_at.pop(item, None)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            while self._due_at:
                item, due_at = next(iter(self._due_at.items()))
                if due_at > now:
                    break
                del self._due_at[item]
                self._expired(item)  # which may add it anew
        finally:
            next_at = next(iter(self._due_at.values()), None)
            self._timer = None if next_at is None else loop.call_at(next_at, self._ring)
