"""The head as an application: what `gym-head serve` runs, and what a driver serves inside its own process.

`create_app(settings)` has no side effect before the application's lifespan begins. Who serves it calls
`app.state.service.on_stop()` when a stop begins, so that open event streams end at once; `run_service` does that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI
from starlette.middleware import Middleware

from rollgym.common.app import Service, build_app
from rollgym.common.middleware import BearerToken
from rollgym.head.metrics import register_metrics
from rollgym.head.page_routes import page_routes
from rollgym.head.probing import probing
from rollgym.head.registry import Registry
from rollgym.head.run_history import RunHistory
from rollgym.head.run_routes import run_routes
from rollgym.head.server_routes import server_routes
from rollgym.head.settings import IN_MEMORY, HeadSettings
from rollgym.head.state import Head

__all__ = ["IN_MEMORY", "HeadSettings", "create_app", "head_service"]


def create_app(
    settings: HeadSettings,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> FastAPI:
    """The head's application. `clock` (monotonic) and `wall` (epoch seconds) are what its time rules go by."""
    return build_app(head_service(settings, clock=clock, wall=wall))


def head_service(
    settings: HeadSettings,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Service:
    """The head as `run_service` takes it.

    A token in the settings guards what writes (PUT, DELETE); what only reads, the page included, stays open.
    """
    servers = Registry(
        silence_limit_s=settings.silence_limit_s, gone_kept_s=settings.gone_kept_s, clock=clock, wall=wall
    )
    history = RunHistory(
        settings.database_path(), keep_runs=settings.keep_runs, keep_recent=settings.metrics_runs, wall=wall
    )
    guard = _guard(settings)
    service = Service(
        name="head",
        kind="head",
        settings=settings.model_copy(update={"token": None}),
        routes=[*server_routes(guard), *run_routes(guard), *page_routes()],
        ready=lambda: _checks(history),
        on_stop=history.streams.close,
    )
    head = Head(settings=settings, servers=servers, history=history, started_at=service.started_at)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.head = head
        async with history.opened(), probing(servers, settings.probe_interval_s):
            yield

    service.lifespan = lifespan
    register_metrics(service.registry, servers, history)
    return service


def _guard(settings: HeadSettings) -> list[Middleware]:
    if settings.token is None:
        return []
    return [Middleware(BearerToken, token=settings.token.get_secret_value(), open_paths=())]


async def _checks(history: RunHistory) -> dict[str, str]:
    return {"run history": await history.health()}
