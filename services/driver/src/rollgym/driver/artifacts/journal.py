"""The journal: one short line per attempt and change of state, so that killed, unstarted and lost are told apart."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

Event = Literal["started", "resumed", "dispatched", "succeeded", "masked", "failed", "drained", "cancelled", "ended"]


class JournalLine(msgspec.Struct, omit_defaults=True, gc=False):
    """One line; `at` is in seconds since the epoch, `seconds` the attempt's duration on a monotonic clock."""

    event: str
    at: float
    task: int | None = None
    rollout: int | None = None
    attempt: int = 0
    seconds: float | None = None
    failure_class: str | None = None
    terminal: bool = False
    note: str | None = None


_encoder = msgspec.json.Encoder()


def journal_line(
    event: Event,
    task: int | None = None,
    rollout: int | None = None,
    attempt: int = 0,
    seconds: float | None = None,
    failure_class: str | None = None,
    *,
    terminal: bool = False,
    note: str | None = None,
) -> bytes:
    """The bytes of one line, without its newline; its fields are those of `JournalLine`."""
    at, took_s = round(time.time(), 3), None if seconds is None else round(seconds, 3)
    return _encoder.encode(JournalLine(event, at, task, rollout, attempt, took_s, failure_class, terminal, note))
