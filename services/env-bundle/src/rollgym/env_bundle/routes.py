"""The OpenEnv routes, each twice: under an environment's name, and at the root for the default environment.

HTTP keeps no session, as in OpenEnv: each request gets a fresh instance that is closed after the answer. Episodes live
on the WebSocket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from rollgym.common import jsonx
from rollgym.common.disconnect import run_until_disconnect
from rollgym.common.errors import BadRequest, InvalidArguments
from rollgym.common.suggestions import did_you_mean
from rollgym.env_bundle import frames, json_rpc, openapi
from rollgym.env_bundle.bundle import Bundle
from rollgym.env_bundle.environment import Environment, EpisodeError, Observation
from rollgym.env_bundle.refusals import EpisodeRefused, UnknownEnvironment
from rollgym.env_bundle.registry import EnvironmentType
from rollgym.env_bundle.session import Session


def bundle_of(connection: HTTPConnection) -> Bundle:
    """What the sessions of this process share."""
    bundle: Bundle = connection.app.state.bundle
    return bundle


async def session_socket(websocket: WebSocket) -> None:
    """One socket is one session is one environment instance."""
    try:
        kind = _environment(websocket)
    except UnknownEnvironment as unknown:
        await websocket.send_denial_response(JSONResponse(unknown.to_wire(), unknown.status))
        return
    await Session(bundle_of(websocket), kind, websocket).run()


async def overview(request: Request) -> Response:
    """What is served here, for a person who opens the port."""
    bundle = bundle_of(request)
    served = [
        {"name": name, "description": kind.description, "ws": f"/{name}/ws", "default": name == bundle.registry.default}
        for name, kind in bundle.registry.by_name.items()
    ]
    slots = {"limit": bundle.slots.limit, "in_use": bundle.slots.in_use}
    return JSONResponse({"service": "env-bundle", "status": "up", "environments": served, "slots": slots})


async def health(request: Request) -> Response:
    _environment(request)
    return JSONResponse({"status": "healthy"})


async def metadata(request: Request) -> Response:
    kind = _environment(request)
    return JSONResponse({"name": kind.name, "description": kind.description, "version": kind.version})


async def schema(request: Request) -> Response:
    return JSONResponse(openapi.schemas(_environment(request)))


async def openapi_document(request: Request) -> Response:
    kind = _environment(request)
    return JSONResponse(openapi.document(kind, f"/{kind.name}"))


async def reset(request: Request) -> Response:
    data = await _body(request, default={})
    async with _instance(request) as environment:
        return _observed(await run_until_disconnect(request, environment.begin(data)))


async def step(request: Request) -> Response:
    data = await _body(request)
    if not isinstance(data.get("action"), dict):
        raise InvalidArguments("action: a JSON object is needed")
    async with _instance(request) as environment:
        return _observed(await run_until_disconnect(request, environment.act(data["action"])))


async def state(request: Request) -> Response:
    async with _instance(request) as environment:
        return JSONResponse(environment.state().model_dump())


async def mcp(request: Request) -> Response:
    try:
        data = jsonx.loads(await request.body())
    except ValueError:
        return JSONResponse(json_rpc.parse_error())
    async with _instance(request) as environment:
        answer = await run_until_disconnect(request, json_rpc.answer(environment, data))
        return Response(jsonx.dumps(answer), media_type="application/json")


def _environment(connection: HTTPConnection) -> EnvironmentType:
    name: str | None = connection.path_params.get("env")
    registry = bundle_of(connection).registry
    kind = registry.find(name)
    if kind is None:
        known = list(registry)
        hint = did_you_mean(name or "", known)
        raise UnknownEnvironment(f"no environment {name!r}{hint}; there are {', '.join(known)}", environments=known)
    return kind


@asynccontextmanager
async def _instance(request: Request) -> AsyncIterator[Environment[Any]]:
    """A fresh environment for one request; what it refuses becomes the answer's status."""
    environment = _environment(request)()
    try:
        yield environment
    except ValidationError as wrong:
        found = frames.validation_errors(wrong)
        told = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found)
        raise InvalidArguments(told, errors=found) from wrong
    except EpisodeError as refused:
        raise EpisodeRefused(str(refused)) from refused
    finally:
        environment.close()


async def _body(request: Request, default: dict[str, Any] | None = None) -> dict[str, Any]:
    raw = await request.body()
    if not raw and default is not None:
        return default
    try:
        data = jsonx.loads(raw)
    except ValueError as broken:
        raise BadRequest(f"the body is no JSON: {broken}") from broken
    if not isinstance(data, dict):
        raise BadRequest("the body is no JSON object")
    return data


def _observed(observation: Observation) -> Response:
    return Response(observation.to_json(), media_type="application/json")


def _twice(path: str, endpoint: Any, method: str) -> list[BaseRoute]:
    return [Route(prefix + path, endpoint, methods=[method]) for prefix in ("", "/{env}")]


ROUTES: list[BaseRoute] = [
    WebSocketRoute("/ws", session_socket),
    WebSocketRoute("/{env}/ws", session_socket),
    Route("/", overview, methods=["GET"]),
    Route("/{env}/health", health, methods=["GET"]),
    Route("/{env}/openapi.json", openapi_document, methods=["GET"]),
    *_twice("/metadata", metadata, "GET"),
    *_twice("/schema", schema, "GET"),
    *_twice("/reset", reset, "POST"),
    *_twice("/step", step, "POST"),
    *_twice("/state", state, "GET"),
    *_twice("/mcp", mcp, "POST"),
]
