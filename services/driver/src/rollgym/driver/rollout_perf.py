"""Performance of single rollouts (`ng_perf`) and of dispatch (`DispatchLatencyTracker`).

Source of the rules: NeMo Gym 0.7's observability contract. Owned here: what is read of a trajectory, how model calls
are attributed to invocations, which sums follow. Not owned: where the payload's bytes go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rollgym.common.logs import get_logger
from rollgym.driver.durations import Durations

NG_PERF_KEY = "ng_perf"
NG_TRAJECTORY_KEY = "ng_trajectory"

MIN_DURATIONS_FOR_MARGIN = 5

logger = get_logger(__name__)


class _ModelRef(msgspec.Struct, gc=False, frozen=True):
    type: str
    name: str


class _CallRef(msgspec.Struct, gc=False):
    model_call_id: str | None = None
    model_ref: _ModelRef | None = None
    response_id: str | None = None


class _Invocation(msgspec.Struct):
    invocation_id: str
    parent_invocation_id: str | None = None
    model_calls: list[_CallRef] = []


class _Turn(msgspec.Struct, gc=False):
    invocation_id: str


class _ToolCall(msgspec.Struct, gc=False):
    invocation_id: str | None = None


class _ResponseMetadata(msgspec.Struct, gc=False):
    response_id: str | None = None
    model_ref: _ModelRef | None = None


class _TokenStats(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class _ModelCall(msgspec.Struct):
    model_call_id: str | None = None
    response_metadata: _ResponseMetadata = msgspec.field(default_factory=_ResponseMetadata)
    token_stats: _TokenStats = msgspec.field(default_factory=_TokenStats)


class TrajectoryEvidence(msgspec.Struct):
    """What `ng_perf` needs of an `ng_trajectory`; requests, responses and conversations are passed over."""

    invocations: list[_Invocation] = []
    turns: list[_Turn] = []
    model_calls: list[_ModelCall] = []
    tool_calls: list[_ToolCall] = []


_evidence_decoder = msgspec.json.Decoder(TrajectoryEvidence)


def _build_ng_perf(result: Mapping[str, Any], rollout_latency_ms: float | None = None) -> dict[str, Any] | None:
    """The `ng_perf` of a result whose ``ng_trajectory`` is a dictionary; None unless an invocation was observed."""
    trajectory = result.get(NG_TRAJECTORY_KEY)
    if not isinstance(trajectory, Mapping):
        return None
    try:
        evidence = msgspec.convert(trajectory, TrajectoryEvidence)
    except msgspec.ValidationError:
        return None
    return read_evidence(evidence, rollout_latency_ms).perf


def _attach_ng_perf(
    result: dict[str, Any], observability_enabled: bool, rollout_latency_ms: float | None = None
) -> None:
    """Put ``ng_perf`` into `result`, where observability is on and there is anything to say."""
    if not observability_enabled:
        return
    ng_perf = _build_ng_perf(result, rollout_latency_ms)
    if ng_perf is not None:
        result[NG_PERF_KEY] = ng_perf


class Gap(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """Evidence that is missing or wrong, as `ng_trajectory.gaps` says it."""

    code: str
    invocation_id: str | None = None
    detail: str | None = None


class TrajectoryReading(msgspec.Struct, frozen=True):
    """What a trajectory says of performance, and what of it could not be used."""

    perf: dict[str, Any] | None
    gaps: list[Gap]


def read_trajectory(trajectory: bytes, rollout_latency_ms: float | None) -> TrajectoryReading:
    """Read the trajectory's JSON without building its payloads; one of a wrong shape is a gap and says nothing."""
    try:
        evidence = _evidence_decoder.decode(trajectory)
    except (msgspec.DecodeError, RecursionError) as error:
        return TrajectoryReading(None, [Gap("trajectory_invalid", detail=str(error)[:200])])
    return read_evidence(evidence, rollout_latency_ms)


def read_evidence(evidence: TrajectoryEvidence, rollout_latency_ms: float | None) -> TrajectoryReading:
    """Performance, and gaps: contradictions, after which there is none, and references that cannot be joined.

    A reference to a model call that cannot be matched without guessing is left out of the sums.
    """
    contradictions = _contradictions(evidence)
    joined = _join(evidence)
    sound = evidence.invocations and not contradictions
    perf = _perf(evidence, joined, rollout_latency_ms) if sound else None
    return TrajectoryReading(perf, [*contradictions, *joined.gaps])


def _perf(evidence: TrajectoryEvidence, joined: _Joined, rollout_latency_ms: float | None) -> dict[str, Any]:
    """Turns, tool calls, coverage, token sums (each absent unless a call reported it) and latency in milliseconds."""
    turns = _counted([turn.invocation_id for turn in evidence.turns])
    tools = _counted([tool.invocation_id for tool in evidence.tool_calls])
    names = [invocation.invocation_id for invocation in evidence.invocations]
    num_turns = sum([turns.get(name) or joined.calls_of.get(name) or 1 for name in names])
    perf: dict[str, Any] = {
        "num_turns": num_turns,
        "num_tool_calls": sum([tools.get(name, 0) for name in names]),
        "token_observability_coverage": min(1.0, len(joined.owned) / num_turns),
    }
    stats = [call.token_stats for call in joined.owned]
    for name, reported in (
        ("prompt_tokens", [each.prompt_tokens for each in stats if each.prompt_tokens is not None]),
        ("cached_prompt_tokens", [each.cached_tokens for each in stats if each.cached_tokens is not None]),
        ("completion_tokens", [each.completion_tokens for each in stats if each.completion_tokens is not None]),
        ("reasoning_tokens", [each.reasoning_tokens for each in stats if each.reasoning_tokens is not None]),
    ):
        if reported:
            perf[name] = sum(reported)
    if rollout_latency_ms is not None:
        perf["total_latency_ms"] = rollout_latency_ms
    return perf


def _contradictions(evidence: TrajectoryEvidence) -> list[Gap]:
    """What cannot be true of any trajectory."""
    gaps: list[Gap] = []
    parents = {each.invocation_id: each.parent_invocation_id for each in evidence.invocations}
    if len(parents) < len(evidence.invocations):
        counted = _counted([each.invocation_id for each in evidence.invocations])
        gaps += [Gap("invocation_id_duplicate", name) for name, count in counted.items() if count > 1]
    gaps += [
        Gap("invocation_parent_cycle", name)
        for name, parent in parents.items()
        if parent in parents and _is_its_own_ancestor(name, parents)
    ]
    gaps += [
        Gap("token_stats_negative", detail=each.model_call_id) for each in evidence.model_calls if _has_negative(each)
    ]
    return gaps


def _is_its_own_ancestor(name: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents[name]
    while at is not None and at in parents and at not in seen:
        seen.add(at)
        at = parents[at]
    return name in seen


def _has_negative(call: _ModelCall) -> bool:
    stats = call.token_stats
    return (
        (stats.prompt_tokens or 0) < 0
        or (stats.completion_tokens or 0) < 0
        or (stats.reasoning_tokens or 0) < 0
        or (stats.cached_tokens or 0) < 0
    )


def _counted(names: Iterable[str | None]) -> dict[str | None, int]:
    """How often each name is there: what a Counter does, in a tenth of its time for the few names of a rollout."""
    counts: dict[str | None, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


class _Calls:
    """The captured model calls, found by either identity that a reference may use."""

    def __init__(self, calls: list[_ModelCall]) -> None:
        self._calls = calls
        self._by_id: dict[str, list[int]] = {}
        self._by_response: dict[tuple[_ModelRef, str], list[int]] = {}
        for position, call in enumerate(calls):
            metadata = call.response_metadata
            if call.model_call_id:
                self._by_id.setdefault(call.model_call_id, []).append(position)
            if metadata.model_ref is not None and metadata.response_id:
                self._by_response.setdefault((metadata.model_ref, metadata.response_id), []).append(position)

    def named(self, ref: _CallRef) -> list[int]:
        """Positions of the calls that have the reference's identity."""
        if ref.model_call_id:
            return self._by_id.get(ref.model_call_id, [])
        if ref.model_ref is not None and ref.response_id:
            return self._by_response.get((ref.model_ref, ref.response_id), [])
        return []

    def matching(self, ref: _CallRef) -> list[int]:
        """Those of them that contradict nothing else in the reference."""
        return [at for at in self.named(ref) if not ref.model_call_id or _agrees(ref, self._calls[at])]


class _Joined(msgspec.Struct, frozen=True):
    """Which model calls the invocations reference: each once, however many references match it."""

    owned: list[_ModelCall]
    calls_of: dict[str | None, int]
    """How many each invocation claimed first."""
    gaps: list[Gap]
    """References that no call, or more than one, answers to; and calls that two invocations claim."""


def _join(evidence: TrajectoryEvidence) -> _Joined:
    calls = _Calls(evidence.model_calls)
    gaps: list[Gap] = []
    claimed: dict[int, str] = {}
    for invocation in evidence.invocations:
        name = invocation.invocation_id
        for ref in invocation.model_calls:
            candidates = calls.matching(ref)
            detail = ref.model_call_id or ref.response_id or "a reference without an id"
            if len(candidates) > 1:
                gaps.append(Gap("model_call_reference_ambiguous", name, detail))
            elif not candidates:
                conflict = bool(calls.named(ref))
                gaps.append(Gap(f"model_call_reference_{'conflict' if conflict else 'unmatched'}", name, detail))
            elif claimed.setdefault(candidates[0], name) != name:
                gaps.append(Gap("model_call_reference_conflict", name, detail))
    return _Joined([evidence.model_calls[at] for at in claimed], _counted(claimed.values()), gaps)


def _agrees(ref: _CallRef, call: _ModelCall) -> bool:
    metadata = call.response_metadata
    same_model = ref.model_ref is None or ref.model_ref == metadata.model_ref
    return same_model and (ref.response_id is None or ref.response_id == metadata.response_id)


class DispatchLatencyTracker:
    """Durations of this run's rollouts: what the drain margin is drawn from, and what stands beside rollouts/hour.

    Rollouts per hour alone misleads: more concurrency raises it while each rollout gets slower.
    """

    def __init__(self) -> None:
        self.durations = Durations()
        self._successes = 0
        self._drained = 0

    def record(self, seconds: float) -> None:
        """A rollout succeeded after `seconds`; values of 0 and below are no measurement and are ignored."""
        if seconds > 0:
            self._successes += 1
            self.durations.add(seconds)

    def record_failure(self, seconds: float) -> None:
        """A rollout failed after `seconds`: counted only where it ran at least as long as the median so far.

        A fast failure says nothing about how long the work takes; one before any success says nothing at all.
        """
        median = self.quantile(0.5)
        if self._successes and median is not None and seconds >= median:
            self.durations.add(seconds)

    def record_drained(self) -> None:
        """A rollout was not started, for lack of time."""
        self._drained += 1

    @property
    def drained(self) -> int:
        return self._drained

    @property
    def count(self) -> int:
        return self.durations.count

    @property
    def total_s(self) -> float:
        return self.durations.total_s

    def quantile(self, q: float) -> float | None:
        """The q-quantile in seconds by linear interpolation, None while empty."""
        return self.durations.quantile(q)

    def drain_margin(self, configured: float | None) -> float | None:
        """Seconds a rollout needs to be worth starting: `configured`, else this run's p75 from 5 durations on."""
        if configured is not None:
            return configured
        return None if self.count < MIN_DURATIONS_FOR_MARGIN else self.quantile(0.75)

    def summary(self) -> str:
        """Median, p90, p99 and max latency, the task-hours delivered, and how many were drained."""
        lines = ["No rollout has finished: there is no latency to report."]
        if self.count:
            named = (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
            shown = ", ".join(f"{name} {(self.quantile(q) or 0.0) / 60:.1f} min" for name, q in named)
            lines = [
                f"Latency of {self.count} finished rollout(s): {shown}",
                f"Work delivered: {self.total_s / 3600:.1f} task-hours",
            ]
        if self._drained:
            lines.append(f"Drained (no time left to start them): {self._drained}. They will be dispatched on resume.")
        return "\n".join(lines)
