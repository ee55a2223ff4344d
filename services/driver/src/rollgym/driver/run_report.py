"""How a run ended and what it measured, as data."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

from rollgym.common.gc_tuning import GcState, GcWatch
from rollgym.driver.artifacts.manifest import RolloutCounts, RunState
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.durations import Durations
from rollgym.driver.statistics import RunStatistics


@dataclass
class LoopHealth:
    """What the driver's own process did while it collected."""

    lag: Durations = field(default_factory=Durations)
    gc: GcWatch = field(default_factory=GcWatch)
    gc_state: GcState = field(default_factory=GcState.now)
    longest_stall_s: float = 0.0
    longest_stall_phase: str = ""


@dataclass
class RunReport:
    """How a run ended and what it measured. `results` only where they were to be retained, by position.

    `done_now` and `rows_now` are of this start: rollouts that ended for good, and those of them that have a row.
    """

    run_id: str
    state: RunState
    counts: RolloutCounts
    statistics: RunStatistics
    failures: dict[str, int]
    paths: ArtifactPaths
    elapsed_s: float
    done_now: int
    rows_now: int
    health: LoopHealth
    remarks: list[str]
    note: str | None = None
    results: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.counts.succeeded + self.counts.masked == self.counts.owed


def exit_code(report: RunReport, *, require_complete: bool) -> int:
    """0 complete, 3 finished but incomplete (1 under `require_complete`), 1 the collection itself failed, 128 and the
    signal's number where one ended it."""
    if report.state == "interrupted" and report.note is not None:
        return 128 + signal.Signals[report.note]
    if report.state == "failed":
        return 1
    if report.complete:
        return 0
    return 1 if require_complete else 3
