"""The driver's own `/metrics` over HTTP, with `/health` and `/ready` beside it as every process has them.

Built on aiohttp, which a run's clients have loaded already: no second HTTP stack on the heap that a run is timed with.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

STOP_TIMEOUT_S = 1.0

_REGISTRY = web.AppKey("registry", CollectorRegistry)
_STARTED_AT = web.AppKey("started_at", float)


@contextlib.asynccontextmanager
async def metrics_server(listener: socket.socket, registry: CollectorRegistry) -> AsyncIterator[None]:
    """Serve `registry` on `listener` while the block runs; requests that are open at its end have a second."""
    app = web.Application()
    app[_REGISTRY], app[_STARTED_AT] = registry, time.time()
    app.on_response_prepare.append(_without_versions)
    app.add_routes(
        [web.get("/", _root), web.get("/health", _health), web.get("/ready", _ready), web.get("/metrics", _metrics)]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_TIMEOUT_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


async def _without_versions(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)


async def _root(_: web.Request) -> web.Response:
    return web.json_response({"service": "driver", "server_type": "driver", "status": "up"})


async def _health(request: web.Request) -> web.Response:
    uptime_s = time.time() - request.app[_STARTED_AT]
    return web.json_response({"status": "healthy", "service": "driver", "uptime_seconds": uptime_s})


async def _ready(_: web.Request) -> web.Response:
    return web.json_response({"status": "ready", "checks": {}})


async def _metrics(request: web.Request) -> web.Response:
    text = await asyncio.to_thread(generate_latest, request.app[_REGISTRY])
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})
