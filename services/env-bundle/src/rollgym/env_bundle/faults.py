"""Which fault strikes when: the kinds, how one is written down, and the seeded schedule. Knows no sockets.

A flag writes a fault as ``KIND[:key=value]...``::

    --fault slow-step:probability=0.2:duration=3 --fault tcp-reset:phase=reset+step:count=5:env=echo

At each opportunity (one per handshake, one per request, one per spell of quiet between requests) the faults are asked
in the order in which they were given, and the first that strikes is the only one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rollgym.common.settings import problems
from rollgym.common.suggestions import did_you_mean


class Phase(StrEnum):
    """Where in a session's life a fault strikes."""

    HANDSHAKE = "handshake"
    RESET = "reset"
    STEP = "step"
    STATE = "state"
    MCP = "mcp"
    CLOSE = "close"
    IDLE = "idle"


class FaultKind(StrEnum):
    """What goes wrong."""

    LATE_HANDSHAKE = "late-handshake"
    AT_CAPACITY = "at-capacity"
    HTTP_503 = "http-503"
    HTTP_500 = "http-500"
    REAP_SLOT = "reap-slot"
    DROP_BEFORE = "drop-before"
    DROP_DURING = "drop-during"
    DROP_AFTER = "drop-after"
    TCP_RESET = "tcp-reset"
    HALF_OPEN = "half-open"
    SLOW_STEP = "slow-step"
    ERROR_FRAME = "error-frame"
    MALFORMED_FRAME = "malformed-frame"
    WRONG_TYPE_FRAME = "wrong-type-frame"
    HUGE_OBSERVATION = "huge-observation"


_HANDSHAKE = frozenset({Phase.HANDSHAKE})
_REQUESTS = frozenset({Phase.RESET, Phase.STEP, Phase.STATE, Phase.MCP, Phase.CLOSE})
_ANY = _REQUESTS | {Phase.HANDSHAKE, Phase.IDLE}
_FRAMES = _REQUESTS | {Phase.IDLE}

ALLOWED_PHASES: Mapping[FaultKind, frozenset[Phase]] = {
    FaultKind.LATE_HANDSHAKE: _HANDSHAKE,
    FaultKind.AT_CAPACITY: _HANDSHAKE,
    FaultKind.HTTP_503: _HANDSHAKE,
    FaultKind.HTTP_500: _HANDSHAKE,
    FaultKind.REAP_SLOT: _HANDSHAKE,
    FaultKind.DROP_BEFORE: _ANY,
    FaultKind.DROP_DURING: _ANY,
    FaultKind.DROP_AFTER: _REQUESTS | _HANDSHAKE,
    FaultKind.TCP_RESET: _ANY,
    FaultKind.HALF_OPEN: _ANY,
    FaultKind.SLOW_STEP: _REQUESTS,
    FaultKind.ERROR_FRAME: _FRAMES,
    FaultKind.MALFORMED_FRAME: _FRAMES,
    FaultKind.WRONG_TYPE_FRAME: _FRAMES,
    FaultKind.HUGE_OBSERVATION: _FRAMES,
}
DEFAULT_PHASE = Phase.STEP
"""Where a kind that could strike in several phases strikes unless told otherwise."""

DEFAULT_DURATION_S: Mapping[FaultKind, float] = {
    FaultKind.LATE_HANDSHAKE: 5.0,
    FaultKind.SLOW_STEP: 5.0,
    FaultKind.HALF_OPEN: 0.0,
    FaultKind.REAP_SLOT: 1.0,
}
KEYS = {"duration": "duration_s", "phase": "phases", "size": "size_bytes", "retry_after": "retry_after_s"}
"""Short names that a flag may use."""


class Fault(BaseModel):
    """One fault as it was asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    kind: FaultKind
    probability: float = Field(1.0, ge=0, le=1, description="Chance at each opportunity")
    duration_s: float | None = Field(
        None, ge=0, le=86_400, description="Seconds that it lasts; half-open: 0 until the client leaves"
    )
    count: int | None = Field(None, ge=1, description="Times that it strikes at most; unset: no end")
    after: int = Field(0, ge=0, description="Opportunities that it lets pass first")
    env: str | None = Field(None, description="Only this environment")
    phases: tuple[Phase, ...] = Field((), description="Only in these phases; unset: where its kind strikes by default")
    seed: int | None = Field(None, description="Seed of its chances; unset: made of --fault-seed and its place")
    delay_s: float = Field(0.05, ge=0, le=86_400, description="Seconds of quiet before it strikes in the phase idle")
    size_bytes: int = Field(8 << 20, ge=0, le=1 << 30, description="Padding of huge-observation")
    retry_after_s: int | None = Field(None, ge=0, description="Retry-After of http-503")
    code: str = Field("EXECUTION_ERROR", description="Code of error-frame")

    @model_validator(mode="after")
    def _phases_fit_the_kind(self) -> Fault:
        allowed = ALLOWED_PHASES[self.kind]
        wrong = [phase for phase in self.phases if phase not in allowed]
        if wrong:
            raise ValueError(f"{self.kind} strikes in {', '.join(sorted(allowed))}, not in {', '.join(wrong)}")
        return self

    @property
    def strikes_in(self) -> frozenset[Phase]:
        """The phases that it is asked in."""
        if self.phases:
            return frozenset(self.phases)
        allowed = ALLOWED_PHASES[self.kind]
        return allowed if allowed == _HANDSHAKE else frozenset({DEFAULT_PHASE})

    @property
    def lasts_s(self) -> float:
        """Its duration, the kind's own where none was given."""
        return DEFAULT_DURATION_S.get(self.kind, 0.0) if self.duration_s is None else self.duration_s


def parse_fault(text: str) -> Fault:
    """Read ``KIND[:key=value]...``. Raises ValueError with one line that says what is wrong and what there is."""
    kind, *pairs = text.strip().split(":")
    if kind not in list(FaultKind):
        raise ValueError(f"no fault {kind!r}{did_you_mean(kind, list(FaultKind))}; there are {', '.join(FaultKind)}")
    fields: dict[str, Any] = {"kind": kind}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        name = KEYS.get(key, key).replace("-", "_")
        if not equals or name not in Fault.model_fields or name == "kind":
            known = sorted({*KEYS, *Fault.model_fields} - {*KEYS.values(), "kind"})
            raise ValueError(f"{text}: no setting {pair!r}{did_you_mean(key, known)}; there are {', '.join(known)}")
        fields[name] = tuple(value.split("+")) if name == "phases" else value
    try:
        return Fault.model_validate(fields)
    except ValidationError as wrong:
        raise ValueError(f"{text}: {'; '.join(problems(wrong))}") from wrong


@dataclass
class _Armed:
    """A fault in the schedule, its chances and its counts."""

    id: str
    fault: Fault
    chances: random.Random
    seen: int = 0
    injected: int = 0

    def strikes(self, phase: Phase, env: str) -> bool:
        """Ask it at one opportunity."""
        fault = self.fault
        if phase not in fault.strikes_in or (fault.env is not None and fault.env != env):
            return False
        if fault.count is not None and self.injected >= fault.count:
            return False
        self.seen += 1
        if self.seen <= fault.after or self.chances.random() >= fault.probability:
            return False
        self.injected += 1
        return True


@dataclass
class FaultSchedule:
    """The faults in force. Replacing them starts their counts anew; the totals by kind go on."""

    seed: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    on_change: set[Callable[[], None]] = field(default_factory=set)
    """Called after the faults were replaced."""
    _armed: list[_Armed] = field(default_factory=list)
    _phases: frozenset[Phase] = frozenset()

    def replace(self, faults: Iterable[Fault]) -> None:
        """Put these faults in force instead of those before."""
        self._armed = [self._arm(place, fault) for place, fault in enumerate(faults)]
        self._phases = frozenset[Phase]().union(*(armed.fault.strikes_in for armed in self._armed))
        for told in tuple(self.on_change):
            told()

    def draw(self, phase: Phase, env: str) -> Fault | None:
        """The fault that strikes at this opportunity, counted; None for none."""
        if phase not in self._phases:
            return None
        for armed in self._armed:
            if armed.strikes(phase, env):
                self.injected[armed.fault.kind] += 1
                return armed.fault
        return None

    def idle_delay_s(self, env: str) -> float | None:
        """How long a client must be quiet for the faults of the phase idle; None where there are none."""
        if Phase.IDLE not in self._phases:
            return None
        faults = (armed.fault for armed in self._armed)
        delays = (each.delay_s for each in faults if Phase.IDLE in each.strikes_in and each.env in (None, env))
        return min(delays, default=None)

    def snapshot(self) -> dict[str, Any]:
        """The faults in force with their counts, and the totals by kind, as JSON-ready data."""
        faults = [
            {
                "id": armed.id,
                **armed.fault.model_dump(mode="json"),
                "phases": sorted(armed.fault.strikes_in),
                "duration_s": armed.fault.lasts_s,
                "seen": armed.seen,
                "injected": armed.injected,
            }
            for armed in self._armed
        ]
        return {"faults": faults, "injected": dict(self.injected)}

    def _arm(self, place: int, fault: Fault) -> _Armed:
        own = f"{self.seed}:{place}:{fault.kind}" if fault.seed is None else f"{fault.seed}"
        return _Armed(id=f"fault-{place + 1}", fault=fault, chances=random.Random(own))
