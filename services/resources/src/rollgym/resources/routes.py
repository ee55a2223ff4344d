"""The resources-server HTTP API. Every route is a plain function on a Starlette route: calls are many and small."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, RollgymError
from rollgym.common.service import error_response
from rollgym.resources.aggregate_metrics import aggregate
from rollgym.resources.bodies import CallerId, Seed, parse, parse_close, parse_seed
from rollgym.resources.mcp import mcp
from rollgym.resources.owners import MAX_OWNER_CHARS, OWNER_HEADER
from rollgym.resources.rollout_path import RolloutPath
from rollgym.resources.server import EnvironmentDoor, ResourcesServer
from rollgym.resources.sessions import Session
from rollgym.resources.signing import cookie_header
from rollgym.resources.tool_route import ToolRoute, credential, session_in
from rollgym.resources.verify import VerifyBody
from rollgym.resources.watching import ClientWatch

MASKED_HEADER = "X-Rollgym-Masked"
CLOSE_HEADER = "X-Rollgym-Close"
NAME_HEADER = "x-resources-session-id"
MCP_TOKEN_HEADER = "X-NeMo-Gym-Session-Token"


def server_of(request: Request) -> ResourcesServer:
    server: ResourcesServer = request.app.state.resources
    return server


# Seeding


async def seed_session(request: Request) -> Response:
    """Open a session for a task row, waiting while its environment server is busy."""
    seed = parse_seed(await request.body(), request.headers.get(NAME_HEADER))
    owner = _owner(request.headers.get(OWNER_HEADER))
    server = server_of(request)
    door = server.doors[server.environments.chosen(seed.env).name]
    async with ClientWatch(request.receive):
        answered = _seed if seed.answers_in_full else _seed_for_caller
        return await answered(server, door, seed, owner)


async def _seed(server: ResourcesServer, door: EnvironmentDoor, seed: Seed, owner: str | None) -> Response:
    session, error = await _opened(server, door, seed, owner)
    if error is not None and server.settings.failed_seed == "error":
        return _with_cookie(error_response(error), server, session)
    initial, tools = session.take_initial(), session.tools or door.discovery.known
    body = b'{"session_id":"%b","observation":%b,"tools":%b,"env":%b' % (
        session.id.encode(),
        initial.observation if initial else b"{}",
        tools.functions_json if tools else b"[]",
        jsonx.dumps(session.environment.name),
    )
    if server.settings.tools_over_mcp:
        body += b',"mcp":' + jsonx.dumps(_mcp_metadata(server, session))
    return _with_cookie(Response(body + b"}", media_type="application/json"), server, session)


async def _opened(
    server: ResourcesServer, door: EnvironmentDoor, seed: Seed, owner: str | None
) -> tuple[Session, RollgymError | None]:
    """A session, open or not; it has a cookie either way, so that a later /verify can say what became of it."""
    session = _seeded_before(server, seed.caller)
    try:
        if session is None:
            session = _begun(server, door, seed, owner)
    except RollgymError as error:
        return server.book.refused(door.opener, error), error
    try:
        await session.opened()
    except RollgymError as error:
        return session, error
    return session, None


async def _seed_for_caller(server: ResourcesServer, door: EnvironmentDoor, seed: Seed, owner: str | None) -> Response:
    """The answer to a caller-assigned session's body."""
    assert seed.caller is not None
    session = _seeded_before(server, seed.caller) or _begun(server, door, seed, owner)
    try:
        await session.opened()
    except RollgymError as error:
        if server.settings.failed_seed == "error":
            return _with_cookie(error_response(error), server, session)
    answer: dict[str, Any] = {"resources_session_id": seed.caller.id}
    if server.settings.tools_over_mcp:
        answer["resources_tools"] = _mcp_metadata(server, session)
    return _with_cookie(JSONResponse(answer), server, session)


def _seeded_before(server: ResourcesServer, caller: CallerId | None) -> Session | None:
    """The session that the same seed got before under its caller's id. Raises SessionConflict."""
    return None if caller is None else server.book.seeded_by_caller(caller.id, caller.episode, caller.payload)


def _begun(server: ResourcesServer, door: EnvironmentDoor, seed: Seed, owner: str | None) -> Session:
    """A new session that starts to open. Raises what keeps it out."""
    server.book.require_room()
    session = server.book.begin(door.opener, seed.reset, owner)
    if seed.caller is not None:
        server.book.assign(seed.caller.id, seed.caller.episode, seed.caller.payload, session)
    return session


def _owner(given: str | None) -> str | None:
    """The owner that a request names. Raises BadRequest where that is too long to keep."""
    if given is not None and not 0 < len(given) <= MAX_OWNER_CHARS:
        raise BadRequest(f"an owner has 1 to {MAX_OWNER_CHARS} characters")
    return given


async def hold_owner(request: Request) -> Response:
    """Stay open for as long as the owner is there; answered when this server stops."""
    owner = _owner(request.path_params["owner"])
    assert owner is not None
    await request.body()
    async with ClientWatch(request.receive):
        await server_of(request).owners.held(owner)
    return Response(status_code=204)


def _mcp_metadata(server: ResourcesServer, session: Session) -> dict[str, Any]:
    headers = {MCP_TOKEN_HEADER: server.signer.token(session.id)}
    return {"server_name": "rollgym", "url_path": "/mcp", "transport": "http", "headers": headers}


def _with_cookie(response: Response, server: ResourcesServer, session: Session) -> Response:
    response.headers["set-cookie"] = cookie_header(server.signer.token(session.id))
    return response


# The session's calls


async def verify(request: Request) -> Response:
    """The episode's reward, or why there is none; ends the session."""
    body = parse(await request.body(), VerifyBody)
    result = await session_in(request.scope).verify()
    if result.invalid is not None:
        raise result.invalid
    if result.masked and result.failure is not None and server_of(request).settings.masked_as_error:
        failure = result.failure
        wire = {
            "code": failure.kind,
            "message": failure.reason,
            "data": {"failure_kind": failure.kind, "failure_reason": failure.reason, "mask_sample": True},
        }
        return JSONResponse(wire, 503, {MASKED_HEADER: failure.kind})
    return Response(result.body(body), media_type="application/json")


async def close_session(request: Request) -> Response:
    """End a session, by cookie or by the caller's id; again and again, if need be."""
    caller = parse_close(await request.body())
    if caller is not None:
        session_id, ended = caller.id, await server_of(request).book.close_by_caller(caller.id, caller.episode)
    else:
        session = session_in(request.scope)
        session_id, ended = session.id, await session.close()
    headers = {CLOSE_HEADER: "closed" if ended else "already closed"}
    return JSONResponse({"resources_session_id": session_id}, headers=headers)


# What this server can tell


async def aggregate_metrics(request: Request) -> Response:
    """Means and their kind over many verify answers; masked ones are counted and not averaged."""
    return Response(jsonx.dumps(aggregate(await request.body())), media_type="application/json")


async def reverify_mode(_: Request) -> Response:
    """An episode is verified where it was played: there is nothing to verify again."""
    return JSONResponse("unsupported")


async def tools(request: Request) -> Response:
    """The tools of every environment, or of the session that the request names."""
    server = server_of(request)
    if credential(request.scope) is not None:
        session = session_in(request.scope)
        known = session.tools or server.doors[session.environment.name].discovery.known
        listed = [tool.as_function() for tool in known] if known else []
        return JSONResponse({"env": session.environment.name, "tools": listed})
    envs: dict[str, Any] = {}
    for name, door in server.doors.items():
        try:
            envs[name] = {"tools": [tool.as_function() for tool in await server.tools_of(door)]}
        except RollgymError as error:
            envs[name] = {"error": error.to_wire()}
    return JSONResponse({"envs": envs})


async def sessions(request: Request) -> Response:
    """The sessions that are open: nothing in the listing lets one use them."""
    server, now = server_of(request), time.time()
    listed = [
        {
            "session": session.handle,
            "env": session.environment.name,
            "state": session.state.value,
            "age_s": round(now - session.created_at, 3),
            "idle_s": round(session.idle_s(), 3),
            "steps": session.steps,
        }
        for session in server.book
    ]
    gates = {
        name: {
            "waiting": door.gate.waiting,
            "slots_held": door.gate.held,
            "handshakes": door.gate.handshakes,
            "max_sessions": door.gate.max_sessions,
        }
        for name, door in server.doors.items()
    }
    return JSONResponse({"sessions": listed, "closing": len(server.closers), "envs": gates})


def routes(*, tools_over_mcp: bool) -> Sequence[BaseRoute]:
    """The API's routes; the tools' comes first, as it is asked the most."""
    return [
        ToolRoute(),
        RolloutPath(),
        Route("/seed_session", seed_session, methods=["POST"]),
        Route("/verify", verify, methods=["POST"]),
        Route("/close_session", close_session, methods=["POST"]),
        Route("/owners/{owner}", hold_owner, methods=["POST"]),
        Route("/aggregate_metrics", aggregate_metrics, methods=["POST"]),
        Route("/reverify_mode", reverify_mode, methods=["GET"]),
        Route("/tools", tools, methods=["GET"]),
        Route("/sessions", sessions, methods=["GET"]),
        *([Route("/mcp", mcp, methods=["POST"])] if tools_over_mcp else []),
    ]
