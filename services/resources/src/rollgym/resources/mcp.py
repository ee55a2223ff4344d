"""The tools of a session over MCP's streamable HTTP transport, for agents that speak MCP. Off unless asked for.

One JSON answer to each request: no stream, and no MCP session beside ours. The token that `/seed_session` handed out
names the session.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, RollgymError
from rollgym.resources.sessions import Session
from rollgym.resources.watching import ClientWatch

TOKEN_HEADER = "x-nemo-gym-session-token"
PROTOCOL_VERSION = "2025-06-18"

INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL = -32600, -32601, -32000


async def mcp(request: Request) -> Response:
    """Answer one JSON-RPC message."""
    try:
        message = jsonx.loads(await request.body())
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return _failed(None, INVALID_REQUEST, "one JSON-RPC request is taken at a time")
    if "id" not in message:
        return Response(status_code=202)
    given = message.get("params")
    params: dict[str, Any] = given if isinstance(given, dict) else {}
    try:
        result = await _result(request, message["method"], params)
    except RollgymError as error:
        return _failed(message["id"], INTERNAL, error.message, error.to_wire())
    if result is None:
        return _failed(message["id"], METHOD_NOT_FOUND, f"no method {message['method']!r}")
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def _result(request: Request, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", PROTOCOL_VERSION),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rollgym", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        listed = _session(request).tools or ()
        return {
            "tools": [
                {"name": tool.name, "description": tool.description, "inputSchema": tool.schema} for tool in listed
            ]
        }
    if method == "tools/call":
        return await _called(request, params)
    return None


async def _called(request: Request, params: dict[str, Any]) -> dict[str, Any]:
    session = _session(request)
    try:
        async with ClientWatch(request.receive):
            result = await session.call(str(params.get("name")), jsonx.dumps(params.get("arguments") or {}))
    except RollgymError as error:
        if not session.is_live:
            raise
        return {"content": [{"type": "text", "text": error.message}], "isError": True}
    text = result.answer.text.decode("utf-8", "replace")
    return {"content": [{"type": "text", "text": text}], "isError": result.answer.is_error}


def _session(request: Request) -> Session:
    server = request.app.state.resources
    token = request.headers.get(TOKEN_HEADER)
    if not token:
        raise BadRequest(f"no session: send {TOKEN_HEADER}, as /seed_session said")
    session: Session = server.book.found(server.signer.session_id(token))
    return session


def _failed(message_id: Any, code: int, text: str, data: Any = None) -> Response:
    error = {"code": code, "message": text, **({"data": data} if data is not None else {})}
    return JSONResponse({"jsonrpc": "2.0", "id": message_id, "error": error})
