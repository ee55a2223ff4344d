"""What the event loop's time goes to: sections of the driver's own code, timed, the slow ones named."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rollgym.common.logs import get_logger
from rollgym.driver.metrics import DriverMetrics

SLOW_S = 0.05

log = get_logger(__name__)


@dataclass
class LoopPhases:
    """Times sections of synchronous code; those over 50 ms are counted by phase, and the longest one is kept.

    `phases("decode")` is a context manager for code that does not await. Collections are reported by `on_gc`.
    """

    metrics: DriverMetrics
    log_slow: bool = False
    longest_s: float = 0.0
    longest_phase: str = ""

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._ended(phase, time.perf_counter() - begun)

    def on_gc(self, generation: int, pause_s: float) -> None:
        self._ended(f"GC gen {generation}", pause_s)

    def _ended(self, phase: str, seconds: float) -> None:
        if seconds > self.longest_s:
            self.longest_s, self.longest_phase = seconds, phase
        if seconds < SLOW_S:
            return
        self.metrics.slow_section(phase, seconds)
        if self.log_slow:
            log.warning("a slow section held the event loop", phase=phase, seconds=round(seconds, 4))
