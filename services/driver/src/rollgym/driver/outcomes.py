"""What became of one attempt: a row, or a failure. Data only; cancellation is not among them, it goes on up."""

from __future__ import annotations

from typing import Any

import msgspec

from rollgym.common.failures import FailureClass
from rollgym.common.redaction import redact_text
from rollgym.driver.artifacts.lines import Line
from rollgym.driver.materialized import Key
from rollgym.driver.rollout_facts import RolloutFacts, Tokens

MESSAGE_LIMIT = 2048


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One try at one rollout. `number` counts from 0 and goes on over resumes."""

    position: int
    key: Key
    number: int

    @property
    def rollout_id(self) -> str:
        """The rollout's id as NeMo Gym builds it: task-rollout, and the attempt where it is not the first."""
        identity = f"{self.key[0]}-{self.key[1]}"
        return f"{identity}-a{self.number}" if self.number else identity


class Timings(msgspec.Struct, frozen=True, gc=False):
    """Seconds on a monotonic clock, apart; `total_s` is their sum. None where nobody could observe it."""

    admission_s: float
    """From when the row could have been dispatched (its turn in the queue, or its retry's time) to its dispatch."""
    session_s: float | None
    """Waiting for the environment's session; None for an agent server, which waits out of sight."""
    active_s: float

    @property
    def total_s(self) -> float:
        return self.admission_s + (self.session_s or 0.0) + self.active_s

    @property
    def rollout_s(self) -> float:
        """Dispatch to end: what the operator pays for."""
        return (self.session_s or 0.0) + self.active_s

    def to_json(self) -> dict[str, float]:
        parts = {"admission_wait_ms": self.admission_s, "session_wait_ms": self.session_s, "active_ms": self.active_s}
        return {name: round(seconds * 1000, 3) for name, seconds in parts.items() if seconds is not None}


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """A row for the results; masked ones are rows too, marked as no measurement."""

    line: Line
    facts: RolloutFacts
    timings: Timings


class Failed(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt. `terminal`: no further attempt can help."""

    failure_class: str
    message: str
    terminal: bool
    timings: Timings
    masked: bool = False
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    data: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def shown_message(self) -> str:
        """The message without secrets, cut to 2 KB."""
        text = redact_text(self.message)
        return text if len(text) <= MESSAGE_LIMIT else text[:MESSAGE_LIMIT] + " […]"


Outcome = Succeeded | Failed

KNOWN_CLASSES = frozenset(FailureClass)


def bounded_class(name: str) -> str:
    """A failure class for a metric label: an agent server's own words are one class there."""
    return name if name in KNOWN_CLASSES else "agent_reported"
