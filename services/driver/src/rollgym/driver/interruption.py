"""How a run is told to end before its time, and what of it an interruption ends."""

from __future__ import annotations

import asyncio
from typing import Any

from rollgym.driver.collection import Collection


class Interruption:
    """How a run is told to end before its time. `reason` is what ended it, None while nothing did."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._collection: Collection | None = None

    def watch(self, collection: Collection, task: asyncio.Task[None]) -> None:
        self._collection, self._task = collection, task
        if self.reason is not None:
            task.cancel()

    def cancel(self, reason: str) -> bool:
        """Stop every rollout in flight; a resume owes them again. False where collection has not begun."""
        self.reason = reason
        if self._task is None:
            return False
        self._task.cancel()
        return True

    def watch_end(self, task: asyncio.Task[Any]) -> None:
        """From here on, what an interruption cuts short is `task`; it is cut short at once where one has come."""
        self._collection, self._task = None, task
        if self.reason is not None:
            task.cancel()

    def drain(self, reason: str) -> None:
        """Start nothing more, let what is in flight finish."""
        self.reason = reason
        if self._collection is not None:
            self._collection.stop_starting()
        elif self._task is not None:
            self._task.cancel()
