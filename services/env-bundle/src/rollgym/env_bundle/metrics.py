"""Metrics of the bundle. Labels are the environments' names and the kinds of faults: bounded sets."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge

from rollgym.env_bundle.faults import FaultKind
from rollgym.env_bundle.slots import Slots


class BundleMetrics:
    """Slots, sessions, steps and injected faults."""

    def __init__(self, registry: CollectorRegistry, slots: Slots, environments: list[str]) -> None:
        limit = Gauge("rollgym_env_slots", "Episodes that may run at a time; +Inf without a limit", registry=registry)
        limit.set(math.inf if slots.limit is None else slots.limit)
        in_use = Gauge("rollgym_env_slots_in_use", "Episodes that run", registry=registry)
        in_use.set_function(lambda: slots.in_use)
        self.sessions = Counter("rollgym_env_sessions_total", "Sessions begun", ["env"], registry=registry)
        self.refused = Counter(
            "rollgym_env_sessions_refused_total", "Sessions refused at capacity", ["env"], registry=registry
        )
        self.steps = Counter("rollgym_env_steps_total", "Steps taken", ["env"], registry=registry)
        self.faults = Counter("rollgym_env_faults_injected_total", "Faults injected", ["kind"], registry=registry)
        for name in environments:
            for family in (self.sessions, self.refused, self.steps):
                family.labels(name)
        for kind in FaultKind:
            self.faults.labels(kind)
