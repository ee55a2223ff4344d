"""The frames of the OpenEnv WebSocket: requests read and checked, answers and errors written. Bytes in, bytes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from rollgym.common import jsonx
from rollgym.env_bundle.environment import Observation, State


class ErrorCode(StrEnum):
    """OpenEnv's codes. After the last three the socket closes."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


class RequestType(StrEnum):
    """What a client may send."""

    RESET = "reset"
    STEP = "step"
    STATE = "state"
    MCP = "mcp"
    CLOSE = "close"


_WITH_DATA = frozenset({RequestType.RESET, RequestType.STEP, RequestType.MCP})
_DATA_REQUIRED = frozenset({RequestType.STEP, RequestType.MCP})


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """One request of a client, its form checked; the data is the environment's to check."""

    type: RequestType
    data: dict[str, Any]


class BadFrame(Exception):
    """A frame that is no request; answered, and the session goes on."""

    def __init__(self, code: ErrorCode, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code, self.data = code, data

    def frame(self) -> bytes:
        """The answer to it."""
        return error(self.code, str(self), **self.data)


def read_request(raw: str | bytes) -> FrameRequest:
    """Parse one frame. Raises BadFrame with OpenEnv's code for what is wrong."""
    try:
        message = jsonx.loads(raw)
    except ValueError as broken:
        raise BadFrame(ErrorCode.INVALID_JSON, f"Invalid JSON: {broken}") from broken
    if not isinstance(message, dict):
        raise _invalid((), "a frame is a JSON object with `type`")
    try:
        kind = RequestType(message.get("type", ""))
    except ValueError as unknown:
        raise BadFrame(ErrorCode.UNKNOWN_TYPE, f"Unknown message type: {message.get('type', '')}") from unknown
    return FrameRequest(kind, _data(kind, message))


def _data(kind: RequestType, message: dict[str, Any]) -> dict[str, Any]:
    allowed = {"type", "data"} if kind in _WITH_DATA else {"type"}
    for key in message:
        if key not in allowed:
            raise _invalid((key,), f"unknown field of a {kind} frame")
    if kind in _DATA_REQUIRED and "data" not in message:
        raise _invalid(("data",), f"a {kind} frame needs data")
    data = message.get("data", {})
    if not isinstance(data, dict):
        raise _invalid(("data",), "data is a JSON object")
    return data


def _invalid(where: tuple[str, ...], message: str) -> BadFrame:
    errors = [{"type": "frame", "loc": list(where), "msg": message}]
    return BadFrame(ErrorCode.VALIDATION_ERROR, f"Invalid message: {message}", errors=errors)


def observation(given: Observation) -> bytes:
    """The answer to a reset or a step."""
    return b'{"type":"observation","data":%s}' % given.to_json()


def state(given: State) -> bytes:
    """The answer to `state`."""
    return jsonx.dumps({"type": "state", "data": given.model_dump()})


def mcp(answer: dict[str, Any]) -> bytes:
    """The answer to an `mcp` frame, a JSON-RPC answer within."""
    return jsonx.dumps({"type": "mcp", "data": answer})


def error(code: ErrorCode | str, message: str, **data: Any) -> bytes:
    """An error frame."""
    return jsonx.dumps({"type": "error", "data": {"message": message, "code": str(code), **data}})


def validation_error(given: ValidationError) -> bytes:
    """The answer to a reset or a step whose data does not fit; `errors` as pydantic tells them."""
    return error(ErrorCode.VALIDATION_ERROR, "Invalid message", errors=validation_errors(given))


def validation_errors(given: ValidationError) -> list[dict[str, Any]]:
    """Pydantic's findings as JSON-ready data, inputs cut out: they may be large, or no JSON."""
    return [dict(item) for item in given.errors(include_url=False, include_context=False, include_input=False)]
