"""When the next of equally spaced steps is due."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Steps `every_s` seconds apart, from now on. Small delays do not add up; a stall is not caught up with."""

    def __init__(self, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._clock = every_s, clock
        self._due_at = clock()

    def left_s(self) -> float:
        """Seconds until the next step, asked once for each: less where this one came late, 0 where it was overdue."""
        now = self._clock()
        self._due_at = max(self._due_at + self._every_s, now)
        return self._due_at - now
