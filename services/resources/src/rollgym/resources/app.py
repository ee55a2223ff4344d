"""The service that a resources server is: its routes and its life, for `run_service`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from rollgym.common.service import Service
from rollgym.resources.capacity import session_limit
from rollgym.resources.metrics import ResourcesMetrics
from rollgym.resources.routes import routes
from rollgym.resources.server import ResourcesServer
from rollgym.resources.settings import ResourcesSettings


def create_service(settings: ResourcesSettings) -> Service:
    """The service that `run_service` runs: sessions over HTTP, for the environments that `settings` names.

    Raises ConfigurationError for more sessions than this process can open files for.
    """
    max_sessions = session_limit(settings.max_sessions)
    server: ResourcesServer | None = None

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal server
        app.state.resources = server = ResourcesServer(settings, metrics, max_sessions=max_sessions)
        async with server.serving():
            yield

    async def ready() -> dict[str, str]:
        return await server.look_at_environments() if server else {"process": "starting"}

    service = Service(
        name="resources",
        kind="resources_servers",
        settings=settings,
        routes=routes(tools_over_mcp=settings.tools_over_mcp),
        lifespan=lifespan,
        ready=ready,
        metadata=lambda: server.registration_metadata() if server else {},
        on_stop=lambda: server.stop_intake() if server else None,
    )
    metrics = ResourcesMetrics(service.registry)
    return service
