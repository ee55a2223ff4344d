"""The FastAPI application of a service: its own routes plus liveness, readiness, metrics, limits and errors."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rollgym.common.disconnect import ClientDisconnected
from rollgym.common.errors import BadRequest, RollgymError, ServerFull
from rollgym.common.middleware import BearerToken, BodyLimit, Bugs
from rollgym.common.redaction import redact, redact_text
from rollgym.common.settings import ServiceSettings

OPEN_PATHS = ("/", "/health", "/ready", "/metrics")


async def _always_ready() -> dict[str, str]:
    return {}


def _no_metadata() -> dict[str, Any]:
    return {}


@dataclass
class Service:
    """One process of Rollgym: what it is called, what it serves, what it tells the head.

    `ready` maps each dependency to "ok" or to what is wrong with it; any other word than "ok" makes `/ready` 503.
    `metadata` is sent with each heartbeat. `on_stop` is called when a stop begins, before open requests are waited
    for. `lifespan` surrounds the serving; what it opened is closed within `settings.stop_timeout_s`.
    """

    name: str
    kind: str
    settings: ServiceSettings
    routes: Sequence[BaseRoute] = ()
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None
    ready: Callable[[], Awaitable[dict[str, str]]] = _always_ready
    metadata: Callable[[], dict[str, Any]] = _no_metadata
    on_stop: Callable[[], None] | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    open_paths: Collection[str] = OPEN_PATHS
    uvicorn_options: dict[str, Any] = field(default_factory=dict)
    started_at: float = field(default_factory=time.time)
    stopping: bool = False


def build_app(service: Service) -> FastAPI:
    """The application that serves `service`; importing or building it has no side effect on the process."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if service.lifespan is None:
            yield
        else:
            async with service.lifespan(app):
                yield

    middleware = [Middleware(Bugs), Middleware(BodyLimit, max_bytes=service.settings.max_body_bytes)]
    if service.settings.token is not None:
        token = service.settings.token.get_secret_value()
        middleware.append(Middleware(BearerToken, token=token, open_paths=service.open_paths))
    app = FastAPI(
        title=f"Rollgym {service.name}", lifespan=lifespan, middleware=middleware, docs_url=None, redoc_url=None
    )
    app.state.service = service
    taken = {route.path for route in service.routes if isinstance(route, Route)}
    app.router.routes.extend(service.routes)
    for path, endpoint in (("/", _root), ("/health", _health), ("/ready", _ready), ("/metrics", _metrics)):
        if path not in taken:
            app.router.routes.append(Route(path, endpoint, methods=["GET"]))
    app.add_exception_handler(RollgymError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(ClientDisconnected, _on_disconnect)
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _root(request: Request) -> Response:
    service = _service(request)
    return JSONResponse({"service": service.name, "server_type": service.kind, "status": "up"})


async def _health(request: Request) -> Response:
    service = _service(request)
    return JSONResponse(
        {"status": "healthy", "service": service.name, "uptime_seconds": time.time() - service.started_at}
    )


async def _ready(request: Request) -> Response:
    service = _service(request)
    checks = dict(await service.ready())
    if service.stopping:
        checks["process"] = "stopping"
    ready = all(state == "ok" for state in checks.values())
    return JSONResponse({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)


async def _metrics(request: Request) -> Response:
    text = await run_in_threadpool(generate_latest, _service(request).registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def error_response(error: RollgymError) -> JSONResponse:
    """The answer for an error of ours: its status, its wire form without secrets, `Retry-After` where data says."""
    wire = error.to_wire()
    body = {"code": wire["code"], "message": redact_text(wire["message"]), "data": redact(wire["data"])}
    retry_after_s = error.data.get("retry_after_s")
    headers = {"Retry-After": str(max(1, round(retry_after_s)))} if isinstance(retry_after_s, int | float) else {}
    if isinstance(error, ServerFull):
        headers["Connection"] = "close"  # which makes some room
    return JSONResponse(body, error.status, headers)


async def _on_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RollgymError)
    return error_response(error)


async def _on_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = [
        {"where": ".".join(map(str, item["loc"])), "message": str(item["msg"]), "type": item["type"]}
        for item in error.errors()
    ]
    summary = "; ".join(f"{item['where']}: {item['message']}" for item in wrong)
    return error_response(BadRequest(summary, errors=wrong))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    message = f"{error.detail}: {request.method} {request.url.path}"
    return JSONResponse({"code": code, "message": message, "data": {}}, error.status_code, error.headers)


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=499)
