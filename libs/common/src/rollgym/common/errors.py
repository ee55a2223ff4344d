"""Every error that crosses a boundary of Rollgym, in one tree, with its wire form.

RollgymError                     internal
├── ConfigurationError           configuration       a person's mistake: one line, exit 2
├── ArtifactError                artifact            a file of the run cannot be read or written
├── HeadError                    head                the head does not answer, or not as a head
├── RequestError                                     what a server refuses of a request
│   ├── BadRequest               bad_request         400
│   ├── Unauthorized             unauthorized        401
│   ├── PayloadTooLarge          payload_too_large   413
│   ├── UnknownTool              unknown_tool        404
│   └── InvalidArguments         invalid_arguments   422
├── EnvError                                         the environment server
│   ├── EnvBusy                  env_busy            503  time would help: patience is spent
│   ├── EnvRefused               env_refused         502  nothing listens, name unknown
│   ├── EnvProtocolError         env_protocol        502  an answer that is no OpenEnv
│   ├── EnvLost                  env_lost            503  the session died during the episode
│   └── InvalidReward            invalid_reward      502  no finite number
├── SessionError                                     one session of the resources server
│   ├── SessionUnknown           session_unknown     401  never issued here, or forged
│   ├── SessionClosed            session_closed      410
│   ├── SessionReclaimed         session_reclaimed   410  idle for too long
│   ├── SessionConflict          session_conflict    409  the id belongs to another episode
│   ├── SessionQueueFull         session_queue_full  429  too many calls wait on one session
│   └── ServerFull               server_full         503  our own session limit
├── ModelError                   model_error         502  the model endpoint
│   └── ModelTimeout             model_timeout       504
├── VerifyError                  verify_error        502
├── RolloutTimeout               rollout_timeout     504
└── AgentRequestFailed           agent_request_failed 502

The wire form is ``{"code", "message", "data"}``; `error_from_wire` rebuilds the same type at the client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class RollgymError(Exception):
    """Base of all: a code for machines, a sentence for people, and the numbers behind it.

    `data` holds plain JSON values only, so that an error crosses processes as data.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = data

    def to_wire(self) -> dict[str, Any]:
        """The error as JSON-ready data: ``{"code", "message", "data"}``."""
        return {"code": self.code, "message": self.message, "data": self.data}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.data))


def _rebuild(kind: type[RollgymError], message: str, data: dict[str, Any]) -> RollgymError:
    return kind(message, **data)


class ConfigurationError(RollgymError):
    """A setting, file or command line that a person must correct. Commands print it in one line and exit 2."""

    code = "configuration"
    status = 400


class ArtifactError(RollgymError):
    code = "artifact"


class HeadError(RollgymError):
    code = "head"
    status = 502


class RequestError(RollgymError):
    status = 400


class BadRequest(RequestError):
    code = "bad_request"


class Unauthorized(RequestError):
    code = "unauthorized"
    status = 401


class PayloadTooLarge(RequestError):
    code = "payload_too_large"
    status = 413


class UnknownTool(RequestError):
    code = "unknown_tool"
    status = 404


class InvalidArguments(RequestError):
    code = "invalid_arguments"
    status = 422


class EnvError(RollgymError):
    status = 502


class EnvBusy(EnvError):
    code = "env_busy"
    status = 503


class EnvRefused(EnvError):
    code = "env_refused"


class EnvProtocolError(EnvError):
    code = "env_protocol"


class EnvLost(EnvError):
    code = "env_lost"
    status = 503


class InvalidReward(EnvError):
    code = "invalid_reward"


class SessionError(RollgymError):
    status = 410


class SessionUnknown(SessionError):
    code = "session_unknown"
    status = 401


class SessionClosed(SessionError):
    code = "session_closed"


class SessionReclaimed(SessionError):
    code = "session_reclaimed"


class SessionConflict(SessionError):
    code = "session_conflict"
    status = 409


class SessionQueueFull(SessionError):
    code = "session_queue_full"
    status = 429


class ServerFull(SessionError):
    code = "server_full"
    status = 503


class ModelError(RollgymError):
    code = "model_error"
    status = 502


class ModelTimeout(ModelError):
    code = "model_timeout"
    status = 504


class VerifyError(RollgymError):
    code = "verify_error"
    status = 502


class RolloutTimeout(RollgymError):
    code = "rollout_timeout"
    status = 504


class AgentRequestFailed(RollgymError):
    code = "agent_request_failed"
    status = 502


def _tree(kind: type[RollgymError]) -> Iterator[type[RollgymError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


def error_from_wire(wire: Any, *, status: int | None = None) -> RollgymError | None:
    """Rebuild the error that a server sent as ``{"code", "message", "data"}``.

    Returns None where `wire` is no such object, or its code is one that this version does not know:
    the caller then says what it saw (`status` and text) in its own boundary's words.
    """
    if not isinstance(wire, Mapping):
        return None
    code, message, data = wire.get("code"), wire.get("message"), wire.get("data")
    if not isinstance(code, str) or not isinstance(message, str):
        return None
    known = {kind.__dict__["code"]: kind for kind in _tree(RollgymError) if "code" in kind.__dict__}
    kind = known.get(code)
    if kind is None:
        return None
    named = {key: value for key, value in data.items() if key != "message"} if isinstance(data, Mapping) else {}
    if status is not None:
        named.setdefault("http_status", status)
    return kind(message, **named)
