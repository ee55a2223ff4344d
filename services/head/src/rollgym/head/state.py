"""What one head holds while it serves: its servers, its runs, its settings. Handlers find it on the application."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from rollgym.head.registry import Registry
from rollgym.head.run_history import RunHistory
from rollgym.head.settings import HeadSettings


@dataclass(frozen=True)
class Head:
    settings: HeadSettings
    servers: Registry
    history: RunHistory
    started_at: float


def head_of(request: Request) -> Head:
    head: Head = request.app.state.head
    return head
