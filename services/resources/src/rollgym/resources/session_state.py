"""What a session is doing, and what all sessions of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rollgym.resources.closing import Closers
from rollgym.resources.metrics import ResourcesMetrics
from rollgym.resources.tools import Answer

if TYPE_CHECKING:
    from rollgym.resources.sessions import Session


class SessionState(StrEnum):
    """What a session is doing, or how it ended.

    opening ──► open ◄──► busy
       │          │         │
       ▼          ▼         ▼
     lost     closing ──► closed          lost: its socket died        reclaimed: idle for too long, or its owner gone
    """

    OPENING = "opening"
    OPEN = "open"
    BUSY = "busy"
    CLOSING = "closing"
    CLOSED = "closed"
    LOST = "lost"
    RECLAIMED = "reclaimed"


LIVE = frozenset({SessionState.OPENING, SessionState.OPEN, SessionState.BUSY})


@dataclass(frozen=True)
class SessionLimits:
    """Seconds that a step may take, and that a close waits for the calls ahead of it."""

    step_timeout_s: float
    close_wait_s: float


@dataclass(frozen=True)
class SessionHouse:
    """What all sessions share. `ended` is told of each session's end, once."""

    closers: Closers
    metrics: ResourcesMetrics
    limits: SessionLimits
    ended: Callable[[Session], None]


@dataclass(frozen=True, slots=True)
class CallResult:
    """A tool call's answer, and whether it ended the episode."""

    answer: Answer
    done: bool
