"""A limit in wall time on what a task does, as `asyncio.timeout`, with one timer for all tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from rollgym.driver.shared_timer import SharedTimer

Task = asyncio.Task[Any]


class TimeLimit:
    """A limit of `limit_s` seconds (None: none), the same for every task that is under it.

    ``limit.begin()``, then ``try``: work, ``finally: limit.end()``. Where a CancelledError came out of the work,
    `passed()` says whether it was the limit's; then it is a timeout, and no cancellation any more.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._timer = None if limit_s is None else SharedTimer[Task](limit_s, self._cancel)
        self._cancelled: set[Task] = set()

    def begin(self) -> None:
        if self._timer is not None:
            self._timer.add(_this_task())

    def passed(self) -> bool:
        """Whether this task was cancelled by the limit and by nobody else. Asked once, before `end`."""
        task = _this_task()
        if task not in self._cancelled:
            return False
        self._cancelled.discard(task)
        return task.uncancel() == 0

    def end(self) -> None:
        if self._timer is not None:
            task = _this_task()
            self._timer.discard(task)
            if task in self._cancelled:  # the work swallowed the limit's cancellation, or ended in the same instant
                self._cancelled.discard(task)
                task.uncancel()

    def _cancel(self, task: Task) -> None:
        self._cancelled.add(task)
        task.cancel()


def _this_task() -> Task:
    task = asyncio.current_task()
    assert task is not None
    return task
