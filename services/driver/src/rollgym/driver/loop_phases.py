"""What the event loop's time goes to: sections of the driver's own code, timed, the slow ones named."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rollgym.common.logs import get_logger
from rollgym.driver.metrics import DriverMetrics

SLOW_S = 0.05

log = get_logger(__name__)


class _Section:
    """One phase, entered again and again: it has only one section at a time."""

    __slots__ = ("_begun", "_phase", "_phases")

    def __init__(self, phases: LoopPhases, phase: str) -> None:
        self._phases, self._phase = phases, phase
        self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._phases.ended(self._phase, time.perf_counter() - self._begun)


@dataclass
class LoopPhases:
    """Times sections of synchronous code; those over 50 ms are counted by phase, and the longest one is kept.

    `phases("decode")` is a context manager for code that does not await, and not for a section within one of the same
    name. Collections are reported by `on_gc`.
    """

    metrics: DriverMetrics
    log_slow: bool = False
    longest_s: float = 0.0
    longest_phase: str = ""
    _sections: dict[str, _Section] = field(default_factory=dict)

    def __call__(self, phase: str) -> _Section:
        section = self._sections.get(phase)
        if section is None:
            section = self._sections[phase] = _Section(self, phase)
        return section

    def on_gc(self, generation: int, pause_s: float) -> None:
        self.ended(f"GC gen {generation}", pause_s)

    def ended(self, phase: str, seconds: float) -> None:
        """A section of `phase` took so long."""
        if seconds > self.longest_s:
            self.longest_s, self.longest_phase = seconds, phase
        if seconds < SLOW_S:
            return
        self.metrics.slow_section(phase, seconds)
        if self.log_slow:
            log.warning("a slow section held the event loop", phase=phase, seconds=round(seconds, 4))
