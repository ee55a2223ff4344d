"""Routes of the registry: registration and heartbeat, the list of servers, NeMo Gym's two, Prometheus' discovery."""

from __future__ import annotations

import os
import time
from typing import Any

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rollgym.common.binding import url_of
from rollgym.common.logs import get_logger
from rollgym.common.registration import ServerRegistration
from rollgym.head import discovery, nemo_gym
from rollgym.head.addresses import WILDCARDS, head_address
from rollgym.head.bodies import body_as, path_id
from rollgym.head.state import Head, head_of

log = get_logger(__name__)


async def put_server(request: Request) -> Response:
    """Register or heartbeat: the same message. 201 the first time, 200 after."""
    servers = head_of(request).servers
    instance_id = path_id(request, "instance_id")
    registration = _reachable(request, await body_as(request, ServerRegistration))
    known = servers.known(instance_id)
    server = servers.heartbeat(instance_id, registration)
    if not known:
        log.info("a server registered", instance_id=instance_id, url=server.registration.url)
    return JSONResponse(server.to_wire(), 200 if known else 201)


async def delete_server(request: Request) -> Response:
    """Say goodbye. 404 for a server that the head does not know (it restarted meanwhile: nothing is left to do)."""
    server = head_of(request).servers.deregister(path_id(request, "instance_id"))
    log.info("a server deregistered", instance_id=server.instance_id)
    return JSONResponse(server.to_wire())


async def list_servers(request: Request) -> Response:
    """Every server and the head itself; `?name=`, `?server_type=` and `?status=` keep those that match."""
    shown = all_servers(request)
    for field in ("name", "server_type", "status"):
        if (wanted := request.query_params.get(field)) is not None:
            shown = [server for server in shown if server[field] == wanted]
    return JSONResponse({"servers": shown})


def all_servers(request: Request) -> list[dict[str, Any]]:
    """The wire form of every registered server, the head first."""
    head = head_of(request)
    return [_own_entry(request, head), *(server.to_wire() for server in head.servers.servers())]


def _own_entry(request: Request, head: Head) -> dict[str, Any]:
    host, port = head_address(request, head.settings)
    return {
        "name": discovery.HEAD_NAME,
        "server_type": discovery.HEAD_NAME,
        "implementation": "rollgym",
        "host": host,
        "port": port,
        "url": url_of(host, port),
        "pid": os.getpid(),
        "started_at": head.started_at,
        "ttl_s": None,
        "metadata": {},
        "instance_id": discovery.HEAD_NAME,
        "status": "up",
        "reason": None,
        "last_heartbeat_at": round(time.time(), 3),
        "age_s": 0.0,
    }


def _reachable(request: Request, registration: ServerRegistration) -> ServerRegistration:
    """The registration; where it names all interfaces as its host, with the address that it came from."""
    if registration.host not in WILDCARDS or request.client is None:
        return registration
    host = request.client.host
    return registration.model_copy(update={"host": host, "url": url_of(host, registration.port)})


async def global_config_dict_yaml(request: Request) -> Response:
    """NeMo Gym: a JSON string that holds YAML."""
    head = head_of(request)
    return JSONResponse(nemo_gym.config_yaml(head.servers.live(), head_address(request, head.settings)))


async def server_instances(request: Request) -> Response:
    """NeMo Gym: a list of what runs."""
    return JSONResponse(nemo_gym.server_instances(head_of(request).servers.live()))


async def prometheus_targets(request: Request) -> Response:
    """Prometheus' `http_sd_configs`."""
    head = head_of(request)
    return JSONResponse(discovery.targets(head.servers.live(), head_address(request, head.settings)))


def server_routes(guard: list[Middleware]) -> list[BaseRoute]:
    """The routes; `guard` surrounds those that write."""
    return [
        Route("/v1/servers", list_servers, methods=["GET"]),
        Route("/v1/servers/{instance_id}", put_server, methods=["PUT"], middleware=guard),
        Route("/v1/servers/{instance_id}", delete_server, methods=["DELETE"], middleware=guard),
        Route("/global_config_dict_yaml", global_config_dict_yaml, methods=["GET"]),
        Route("/server_instances", server_instances, methods=["GET"]),
        Route("/sd/prometheus", prometheus_targets, methods=["GET"]),
    ]
