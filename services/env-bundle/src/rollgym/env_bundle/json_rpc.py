"""MCP's `tools/list` and `tools/call` as JSON-RPC 2.0, for the `mcp` frame and for ``POST /mcp``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollgym.common import jsonx
from rollgym.env_bundle.environment import Environment, EpisodeError, on_the_wire
from rollgym.env_bundle.tools import ToolEnvironment, ToolObservation

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class RpcRequest(BaseModel):
    """One JSON-RPC request."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | int | None = None


class ToolCallParams(BaseModel):
    """The parameters of `tools/call`; MCP's own `_meta` and OpenEnv's `session_id` may stand beside them."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)


async def answer(environment: Environment[Any], data: Any) -> dict[str, Any]:
    """Serve one request given as data. Never raises for what a client can send."""
    try:
        request = RpcRequest.model_validate(data)
    except ValidationError as wrong:
        return _error(None, INVALID_REQUEST, f"Invalid request: {_reasons(wrong)}")
    if request.method not in ("tools/list", "tools/call"):
        return _error(request.id, METHOD_NOT_FOUND, f"Method not found: {request.method}")
    if not isinstance(environment, ToolEnvironment):
        return _error(request.id, INTERNAL_ERROR, "Environment does not support MCP")
    if request.method == "tools/list":
        return _result(request.id, {"tools": _tools(environment)})
    return await _call(environment, request)


def parse_error() -> dict[str, Any]:
    """The answer to a body that is no JSON."""
    return _error(None, PARSE_ERROR, "Parse error")


async def _call(environment: ToolEnvironment, request: RpcRequest) -> dict[str, Any]:
    try:
        params = ToolCallParams.model_validate(request.params)
        called = await environment.act(
            {"type": "call_tool", "tool_name": params.name, "arguments": params.arguments},
        )
    except ValidationError as wrong:
        return _error(request.id, INVALID_PARAMS, _reasons(wrong))
    except EpisodeError as refused:
        return _error(request.id, INTERNAL_ERROR, str(refused))
    assert isinstance(called, ToolObservation)
    return _result(request.id, _call_result(called))


def _call_result(called: ToolObservation) -> dict[str, Any]:
    """A tool's answer as OpenEnv's servers give it through MCP, with reward and end beside it."""
    failure = called.error
    text = failure.message if failure else jsonx.dumps(called.result).decode()
    return {
        "content": [{"type": "text", "text": text}],
        "structured_content": None if failure else {"result": called.result},
        "data": None if failure else called.result,
        "is_error": failure is not None,
        "meta": {"reward": on_the_wire(called.reward), "done": called.done},
    }


def _tools(environment: ToolEnvironment) -> list[dict[str, Any]]:
    return [
        {
            "name": each.description.name,
            "description": each.description.description,
            "inputSchema": each.description.input_schema,
        }
        for each in environment.tools.values()
    ]


def _reasons(wrong: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in wrong.errors(include_url=False))


def _result(request_id: str | int | None, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": None}}
