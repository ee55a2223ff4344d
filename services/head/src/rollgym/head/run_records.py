"""What a driver reports of its run, and how the head shows it. Owns the states of a run; stores nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat

from rollgym.common import jsonx
from rollgym.common.redaction import redact, redact_text
from rollgym.head.final_metrics import FinalMetric

MAX_SUMMARY_BYTES = 64 * 1024
MAX_METRICS_CHARS = 1024 * 1024

Count = Annotated[int, Field(ge=0, le=2**53)]


class RunState(StrEnum):
    """How a run stands. `LOST` is never reported: it is a running run that fell silent."""

    RUNNING = "running"
    FINISHED = "finished"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        return self not in (RunState.RUNNING, RunState.LOST)


class Counts(BaseModel):
    """Rollouts by state. A number that the driver did not give stays absent; each rollout is in one state."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    succeeded: Count | None = None
    failed: Count | None = None
    drained: Count | None = None
    cancelled: Count | None = None
    in_flight: Count | None = None
    pending: Count | None = None
    masked: Count | None = None


class LatencySeconds(BaseModel):
    """Percentiles of the wall time of a rollout, seconds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    p50: NonNegativeFloat | None = None
    p90: NonNegativeFloat | None = None
    p99: NonNegativeFloat | None = None
    max: NonNegativeFloat | None = None


class RunReport(BaseModel):
    """The body of ``PUT /v1/runs/{run_id}``: the whole state of a run, sent every few seconds and at its end.

    `sent_at` (optional, the sender's epoch seconds) lets the head drop a report that a later one overtook.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    run_id: str | None = Field(None, max_length=128, description="Repeats the one in the path, where given")
    name: str = Field("", max_length=500, description="What a person calls the run")
    state: RunState
    started_at: float = Field(ge=0, description="Epoch seconds")
    ended_at: float | None = Field(None, ge=0, description="Epoch seconds")
    sent_at: float | None = Field(None, ge=0, description="Epoch seconds by the sender's clock")
    ttl_s: float = Field(20.0, gt=0, le=86_400, description="Silence after which a running run is shown as lost")
    owed: Count | None = Field(None, description="Rollouts that the run owes in all")
    scored: Count | None = Field(None, description="Rollouts that `reward_mean` is over")
    counts: Counts = Field(default_factory=Counts)
    reward_mean: float | None = None
    rollouts_per_hour: NonNegativeFloat | None = None
    latency_s: LatencySeconds | None = None
    failures: Annotated[dict[str, Count], Field(max_length=64)] = Field(default_factory=dict)
    output: str = Field("", max_length=4096, description="Path of the results file")
    host: str = Field("", max_length=255, description="Where the driver runs")
    metrics_text: str | None = Field(None, max_length=MAX_METRICS_CHARS, description="The driver's last exposition")
    summary: dict[str, Any] | None = Field(None, description="Anything worth keeping, shown as it is")


def without_secrets(report: RunReport) -> tuple[RunReport, list[str]]:
    """The report as it may be kept and shown, and what had to be left out of it.

    The raw exposition is dropped: what is kept of it are its parsed numbers.
    """
    warnings = []
    summary = redact(report.summary)
    if summary is not None and len(jsonx.dumps(summary)) > MAX_SUMMARY_BYTES:
        warnings.append(f"summary is over {MAX_SUMMARY_BYTES:,} bytes and was left out")
        summary = None
    shown = {name: redact_text(getattr(report, name)) for name in ("name", "output", "host")}
    failures = {redact_text(kind)[:64]: count for kind, count in report.failures.items()}
    update = {**shown, "failures": failures, "summary": summary, "metrics_text": None}
    return report.model_copy(update=update), warnings


@dataclass(frozen=True)
class RunRecord:
    """A run as last reported. `updated_at` is the head's epoch time; `revision` counts the reports."""

    run_id: str
    report: RunReport
    updated_at: float
    revision: int
    metrics: tuple[FinalMetric, ...] = ()

    def state(self, now: float) -> RunState:
        """The reported state, or `lost` where a running run has been silent for longer than its `ttl_s`."""
        if self.report.state is RunState.RUNNING and now - self.updated_at > self.report.ttl_s:
            return RunState.LOST
        return self.report.state

    @property
    def scored(self) -> int | None:
        """Rollouts that the reward mean is over: as reported, else the succeeded."""
        return self.report.counts.succeeded if self.report.scored is None else self.report.scored

    def to_wire(self, now: float) -> dict[str, Any]:
        """The run as JSON: what was reported, `state` as it stands now, and when the head last heard of it."""
        body = self.report.model_dump(mode="json", exclude={"metrics_text"})
        return {
            **body,
            "run_id": self.run_id,
            "state": self.state(now).value,
            "reported_state": self.report.state.value,
            "scored": self.scored,
            "updated_at": round(self.updated_at, 3),
            "age_s": round(max(0.0, now - self.updated_at), 3),
            "revision": self.revision,
        }


def replaces(new: RunReport, known: RunRecord | None) -> bool:
    """Whether a report is news: not one that its own sender's later report has overtaken on the way."""
    if known is None or new.sent_at is None or known.report.sent_at is None:
        return True
    return new.sent_at >= known.report.sent_at


def failure_counts(failures: Mapping[str, int]) -> list[tuple[str, int]]:
    """Failures by class, the most frequent first."""
    return sorted(failures.items(), key=lambda item: (-item[1], item[0]))
