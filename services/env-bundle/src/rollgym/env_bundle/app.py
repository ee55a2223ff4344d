"""Builds the service out of its settings: environments, slots, faults, routes, and how the sockets are served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from rollgym.common.app import OPEN_PATHS, Service
from rollgym.common.errors import ConfigurationError
from rollgym.common.logs import get_logger
from rollgym.env_bundle import admin, openapi, routes
from rollgym.env_bundle.bundle import Bundle
from rollgym.env_bundle.faults import FaultSchedule
from rollgym.env_bundle.metrics import BundleMetrics
from rollgym.env_bundle.registry import BUILT_IN, Registry, load
from rollgym.env_bundle.settings import EnvBundleSettings
from rollgym.env_bundle.slots import Slots, Stats
from rollgym.env_bundle.wire import Wire

log = get_logger(__name__)


def create_service(settings: EnvBundleSettings) -> Service:
    """The service that `settings` describe. Raises ConfigurationError for an environment that cannot be served."""
    registry = CollectorRegistry()
    bundle = _create_bundle(settings, registry)
    own_routes: list[BaseRoute] = [*(admin.ROUTES if settings.admin else ()), *routes.ROUTES]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.bundle = bundle
        root_document = openapi.document(bundle.registry.by_name[bundle.registry.default])
        app.openapi = lambda: root_document  # type: ignore[method-assign]  # FastAPI's documented way to replace it
        _say_what_is_unusual(settings)
        yield

    return Service(
        name="env-bundle",
        kind="env_bundle",
        settings=settings,
        routes=own_routes,
        lifespan=lifespan,
        metadata=lambda: _metadata(bundle),
        registry=registry,
        open_paths=(*OPEN_PATHS, *(f"/{name}/health" for name in bundle.registry)),
        uvicorn_options=_socket_options(settings),
    )


def _create_bundle(settings: EnvBundleSettings, registry: CollectorRegistry) -> Bundle:
    environments = Registry(
        [*BUILT_IN, *(load(reference) for reference in settings.environment)], default=settings.default_environment
    )
    faults = FaultSchedule(seed=settings.fault_seed)
    for fault in settings.faults:
        if fault.env is not None and environments.find(fault.env) is None:
            raise ConfigurationError(
                f"--fault: no environment {fault.env!r}; there are {', '.join(environments)}", env=fault.env
            )
    faults.replace(settings.faults)
    slots = Slots(settings.max_sessions)
    return Bundle(
        registry=environments,
        slots=slots,
        stats=Stats(),
        faults=faults,
        metrics=BundleMetrics(registry, slots, list(environments)),
        max_frame_bytes=settings.max_frame_bytes,
        idle_timeout_s=settings.idle_timeout_s,
    )


def _socket_options(settings: EnvBundleSettings) -> dict[str, Any]:
    """How uvicorn serves the sockets. Frames are not compressed: it costs more than the loopback or a rack saves."""
    return {
        "ws": Wire,
        "ws_max_size": settings.max_frame_bytes,
        "ws_ping_interval": settings.ping_interval_s or None,
        "ws_ping_timeout": settings.ping_timeout_s,
        "ws_per_message_deflate": False,
    }


def _metadata(bundle: Bundle) -> dict[str, Any]:
    return {"envs": list(bundle.registry), "slots": bundle.slots.limit, "slots_in_use": bundle.slots.in_use}


def _say_what_is_unusual(settings: EnvBundleSettings) -> None:
    if settings.idle_timeout_s is None:
        log.info("no idle timeout: sessions live as long as their sockets", ping_interval_s=settings.ping_interval_s)
    if not settings.ping_interval_s:
        log.warning("no pings: a client that vanishes without a word keeps its slot")
    if settings.fault:
        log.warning("faults are in force", faults=settings.fault)
    if settings.admin:
        log.warning("the admin routes are on")
