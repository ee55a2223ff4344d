"""Request bodies: the few fields that this server reads of them. The rest of a row is never looked at."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest

MAX_ID_CHARS = 500
T = TypeVar("T", bound=msgspec.Struct)


class _Row(msgspec.Struct):
    env: str | None = None
    seed: msgspec.Raw = msgspec.Raw()
    reset: msgspec.Raw = msgspec.Raw()


class _SeedBody(_Row):
    resources_session_id: str | None = None
    episode_id: msgspec.Raw = msgspec.Raw()
    task_id: msgspec.Raw = msgspec.Raw()
    task_data: msgspec.Raw = msgspec.Raw()


class _CloseBody(msgspec.Struct):
    resources_session_id: str | None = None
    episode_id: msgspec.Raw = msgspec.Raw()


@dataclass(frozen=True)
class CallerId:
    """An id that the caller assigned, and digests of its episode and of everything that it is to play."""

    id: str
    episode: bytes
    payload: bytes = b""


@dataclass(frozen=True)
class Seed:
    """What a seed asks for: the environment's name, the reset's arguments as JSON text, the caller's id if any."""

    env: str | None
    reset: bytes
    caller: CallerId | None
    answers_in_full: bool = True
    """Whether the answer says what was opened: whoever sends a caller-assigned session's body refuses that."""


def parse_seed(body: bytes, named: str | None = None) -> Seed:
    """Read a `/seed_session` body: a task row, or a caller-assigned session. Raises BadRequest.

    `named`: the id that the caller assigns to a task row's session, where a header does.
    """
    parsed = parse(body, _SeedBody)
    if parsed.resources_session_id is None:
        return Seed(parsed.env, _reset(parsed), None if named is None else _named(named, body))
    row = parse(bytes(parsed.task_data) or b"{}", _Row, "task_data")
    payload = _digest(bytes(parsed.task_id), bytes(parsed.task_data))
    caller = _caller_id(parsed.resources_session_id, bytes(parsed.episode_id), payload)
    env = row.env if row.env is not None else parsed.env
    return Seed(env, _reset(row), caller, answers_in_full=False)


def parse_close(body: bytes) -> CallerId | None:
    """Read a `/close_session` body; None where it names no session, and the cookie does. Raises BadRequest."""
    if not body.strip():
        return None
    parsed = parse(body, _CloseBody)
    if parsed.resources_session_id is None:
        return None
    return _caller_id(parsed.resources_session_id, bytes(parsed.episode_id))


def parse(body: bytes, kind: type[T], what: str = "the body") -> T:
    """`body` as `kind`, whose fields alone are read. Raises BadRequest saying what is wrong with it."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {error}") from error
    except (msgspec.DecodeError, RecursionError):
        return _parse_slowly(body, kind, what)


def _parse_slowly(body: bytes, kind: type[T], what: str) -> T:
    """For bodies with lone surrogates, which are JSON all the same; they stay escapes."""
    try:
        loaded = jsonx.loads(body)
        return msgspec.json.decode(msgspec.json.encode(_escaped(loaded)), type=kind)
    except ValueError as error:
        raise BadRequest(f"{what} is no JSON: {error}") from error


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


def _reset(row: _Row) -> bytes:
    """The reset's arguments: `reset` over `{"seed": seed}`, where they are given."""
    arguments: dict[str, Any] = {}
    if row.seed and bytes(row.seed) != b"null":
        seed = jsonx.loads(bytes(row.seed))
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise BadRequest(f"`seed` must be an integer, not {json.dumps(seed)[:60]}")
        arguments["seed"] = seed
    if row.reset and bytes(row.reset) != b"null":
        given = jsonx.loads(bytes(row.reset))
        if not isinstance(given, dict):
            raise BadRequest("`reset` must be an object: the arguments of the environment's reset")
        arguments.update(given)
    return jsonx.dumps(arguments)


def _caller_id(session_id: str, episode: bytes, payload: bytes = b"") -> CallerId:
    if not session_id or len(session_id) > MAX_ID_CHARS:
        raise BadRequest(f"`resources_session_id` has 1 to {MAX_ID_CHARS} characters")
    if episode[:1] != b"{":
        raise BadRequest("`episode_id` must be an object: {rollout_id, attempt}")
    named = jsonx.loads(episode)
    named.setdefault("attempt", 0)
    return CallerId(session_id, _digest(jsonx.dumps(named)), payload)


def _named(session_id: str, row: bytes) -> CallerId:
    """An id that belongs to one row alone: its episode has the id's own name. The row is not read for it."""
    episode = json.dumps({"rollout_id": session_id}).encode()
    return _caller_id(session_id, episode, hashlib.blake2b(row, digest_size=16).digest())


def _digest(*texts: bytes) -> bytes:
    """A digest of JSON texts that does not depend on the order of their keys."""
    loaded = [jsonx.loads(text) if text else None for text in texts]
    return hashlib.blake2b(json.dumps(loaded, sort_keys=True).encode(), digest_size=16).digest()
