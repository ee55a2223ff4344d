"""What the sessions of one process share: environments, slots, faults, counts. Built once, passed down."""

from __future__ import annotations

from dataclasses import dataclass

from rollgym.env_bundle.faults import Fault, FaultSchedule, Phase
from rollgym.env_bundle.metrics import BundleMetrics
from rollgym.env_bundle.registry import Registry
from rollgym.env_bundle.slots import Slots, Stats


@dataclass(frozen=True, slots=True)
class Bundle:
    """The shared part of the server."""

    registry: Registry
    slots: Slots
    stats: Stats
    faults: FaultSchedule
    metrics: BundleMetrics
    max_frame_bytes: int
    idle_timeout_s: float | None

    def draw(self, phase: Phase, env: str) -> Fault | None:
        """The fault that strikes now, counted everywhere; None for none."""
        fault = self.faults.draw(phase, env)
        if fault is not None:
            self.metrics.faults.labels(fault.kind).inc()
        return fault
