"""OpenEnv frames: the bytes that a step, a reset or a close is sent as, and what an answer's bytes mean.

Payloads stay bytes: an answer's observation is kept as the JSON text it came as. Only a frame that the strict reader
refuses, because it holds NaN or a lone surrogate, is read slowly and written anew.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import EnvProtocolError

CLOSE = b'{"type":"close"}'
LIST_TOOLS = b'{"type":"step","data":{"type":"list_tools"}}'

SHOWN_CHARS = 2_000


def reset_frame(data: bytes) -> bytes:
    """`data`: the reset's arguments, as the text of a JSON object."""
    return b'{"type":"reset","data":' + data + b"}"


def step_frame(action: bytes) -> bytes:
    """`action`: the fields of an environment's own action, as the text of a JSON object."""
    return b'{"type":"step","data":' + action + b"}"


def call_tool_prefix(tool: str) -> bytes:
    """What comes before a tool call's arguments; `call_tool_frame` completes it."""
    return b'{"type":"step","data":{"type":"call_tool","tool_name":' + jsonx.dumps(tool) + b',"arguments":'


def call_tool_frame(prefix: bytes, arguments: bytes) -> bytes:
    return prefix + arguments + b"}}"


@dataclass(slots=True)
class Observation:
    """An answer to a reset or a step. The raw fields are JSON text; `reward` is None where absent."""

    observation: bytes
    reward: bytes | None
    done: bool
    metadata: bytes | None


@dataclass(slots=True)
class ErrorFrame:
    """The environment server's own error."""

    code: str
    message: str
    active_sessions: int | None = None
    max_sessions: int | None = None
    errors: Any = None

    @property
    def at_capacity(self) -> bool:
        return self.code == "CAPACITY_REACHED"

    @property
    def ends_session(self) -> bool:
        return self.code in ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")

    @property
    def of_the_environment(self) -> bool:
        """An error of the episode itself, after which the session goes on: the model is to see it."""
        return self.code in ("EXECUTION_ERROR", "VALIDATION_ERROR")


class _Data(msgspec.Struct, gc=False):
    observation: msgspec.Raw = msgspec.Raw()
    reward: msgspec.Raw = msgspec.Raw()
    done: bool | None = None
    metadata: msgspec.Raw = msgspec.Raw()


class _Frame(msgspec.Struct, gc=False):
    type: str
    data: msgspec.Raw = msgspec.Raw()


class _ObservationFrame(msgspec.Struct, gc=False):
    type: Literal["observation"]
    data: _Data


class _Error(msgspec.Struct):
    message: Any = ""
    code: Any = ""
    active_sessions: Any = None
    max_sessions: Any = None
    errors: Any = None


_observation = msgspec.json.Decoder(_ObservationFrame)
_frame = msgspec.json.Decoder(_Frame)
_error = msgspec.json.Decoder(_Error)


def decode(raw: bytes) -> Observation | ErrorFrame:
    """Read an answer to a reset or a step. Raises EnvProtocolError for a frame that is no OpenEnv."""
    if not raw.isascii():
        _require_utf8(raw)
    try:
        data = _observation.decode(raw).data
    except msgspec.ValidationError:
        return _other(raw)
    except (msgspec.DecodeError, RecursionError):
        return _slowly(raw)
    if not data.observation:
        raise _no_openenv("an observation frame without an observation", raw)
    return Observation(
        bytes(data.observation), bytes(data.reward) or None, bool(data.done), bytes(data.metadata) or None
    )


def _other(raw: bytes) -> ErrorFrame:
    """A frame that is no observation: the server's error, or nothing that OpenEnv has."""
    try:
        frame = _frame.decode(raw)
        if frame.type == "error":
            return _as_error(_error.decode(frame.data or b"{}"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _no_openenv(f"a frame that is no OpenEnv ({error})", raw) from error
    if frame.type == "observation":
        raise _no_openenv("an observation frame whose fields have the wrong types", raw)
    raise _no_openenv(f"a frame of type {frame.type[:60]!r} where an observation was due", raw)


def _as_error(error: _Error) -> ErrorFrame:
    message = error.message if isinstance(error.message, str) else json.dumps(error.message)
    return ErrorFrame(
        str(error.code),
        message[:SHOWN_CHARS],
        error.active_sessions if isinstance(error.active_sessions, int) else None,
        error.max_sessions if isinstance(error.max_sessions, int) else None,
        error.errors,
    )


def _slowly(raw: bytes) -> Observation | ErrorFrame:
    """Python's own reader, which takes NaN and lone surrogates; what it reads is written as strict JSON."""
    try:
        frame = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _no_openenv(f"a frame that is no JSON ({error})", raw) from error
    if not isinstance(frame, dict) or not isinstance(frame.get("data"), dict):
        raise _no_openenv("a frame that is no OpenEnv", raw)
    reward = frame["data"].get("reward")
    strict = _strict(frame)
    if isinstance(reward, float) and not math.isfinite(reward):
        strict["data"]["reward"] = str(reward)  # a text is no reward: it is refused, and shown as it came
    try:
        return decode(json.dumps(strict, allow_nan=False).encode())
    except ValueError as error:  # json.dumps keeps every surrogate as an escape, which the strict reader refuses
        raise _no_openenv(f"a frame that cannot be read ({error})", raw) from error


def _strict(value: Any) -> Any:
    """A copy without what strict JSON has no word for: non-finite numbers become text, lone surrogates `\\uXXXX`."""
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_strict(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return value


def _require_utf8(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise _no_openenv(f"bytes that are no text (byte {error.start}: {error.reason})", raw) from error


def _no_openenv(what: str, raw: bytes) -> EnvProtocolError:
    return EnvProtocolError(
        f"the environment server sent {what}", frame=raw[:200].decode("utf-8", "replace"), size=len(raw)
    )
