"""What the driver's own process does while it collects: collections, loop lag, slow sections.

One place hears of each and tells all who keep it: the metrics, the samples on disk, the report.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from rollgym.common.gc_tuning import GcState
from rollgym.common.loop_lag import watching_loop_lag
from rollgym.common.metrics import ProcessMetrics
from rollgym.driver.loop_phases import LoopPhases
from rollgym.driver.run_report import LoopHealth
from rollgym.driver.run_samples import RunSamples


@dataclass
class Vitals:
    """Vital signs of one collection."""

    process: ProcessMetrics
    phases: LoopPhases
    samples: RunSamples
    health: LoopHealth = field(default_factory=LoopHealth)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While the block runs, everything is measured; `health` then holds what the report says."""
        self.health.gc.on_pause = self._on_pause
        self.health.gc_state = GcState.now()
        try:
            with self.health.gc:
                async with watching_loop_lag(self._on_lag), self.samples.sampling():
                    yield
        finally:
            self.health.longest_stall_s = self.phases.longest_s
            self.health.longest_stall_phase = self.phases.longest_phase

    def _on_pause(self, generation: int, pause_s: float) -> None:
        self.process.observe_pause(generation, pause_s)
        self.phases.on_gc(generation, pause_s)
        self.samples.on_pause(generation, pause_s)

    def _on_lag(self, lag_s: float) -> None:
        self.process.observe_lag(lag_s)
        self.samples.on_lag(lag_s)
        self.health.lag.add(lag_s)
