"""The failure vocabulary: one word per way a rollout can fail, the same in rows, metrics and logs."""

from enum import StrEnum

from rollgym.common.errors import RollgymError


class FailureClass(StrEnum):
    """Why an attempt failed (`_ng_failure_class`). `retryable` says whether another attempt can help."""

    ENV_BUSY = "env_busy"
    ENV_REFUSED = "env_refused"
    ENV_PROTOCOL = "env_protocol"
    ENV_LOST = "env_lost"
    SESSION_RECLAIMED = "session_reclaimed"
    INVALID_REWARD = "invalid_reward"
    TOOL_ERROR = "tool_error"
    MODEL_ERROR = "model_error"
    MODEL_TIMEOUT = "model_timeout"
    VERIFY_ERROR = "verify_error"
    ROLLOUT_TIMEOUT = "rollout_timeout"
    AGENT_REQUEST_FAILED = "agent_request_failed"
    CANCELLED = "cancelled"
    INTERNAL = "internal"

    @property
    def retryable(self) -> bool:
        """Whether a new attempt can end otherwise. A wrong answer, a refused name or a bug stays what it is."""
        return self not in _FINAL


_FINAL = frozenset(
    {
        FailureClass.ENV_PROTOCOL,
        FailureClass.INVALID_REWARD,
        FailureClass.TOOL_ERROR,
        FailureClass.INTERNAL,
    }
)

_BY_CODE = {
    "session_closed": FailureClass.ENV_LOST,
    "session_unknown": FailureClass.ENV_LOST,
    "server_full": FailureClass.ENV_BUSY,
    "session_queue_full": FailureClass.ENV_BUSY,
    "session_conflict": FailureClass.AGENT_REQUEST_FAILED,
    "bad_request": FailureClass.AGENT_REQUEST_FAILED,
    "unauthorized": FailureClass.AGENT_REQUEST_FAILED,
    "payload_too_large": FailureClass.AGENT_REQUEST_FAILED,
    "invalid_arguments": FailureClass.AGENT_REQUEST_FAILED,
}


def failure_class(error: BaseException) -> FailureClass:
    """The class of an error that ended an attempt; what is not ours is `internal`."""
    if not isinstance(error, RollgymError):
        return FailureClass.INTERNAL
    try:
        return FailureClass(error.code)
    except ValueError:
        return _BY_CODE.get(error.code, FailureClass.INTERNAL)
