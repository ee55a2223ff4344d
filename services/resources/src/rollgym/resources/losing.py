"""What an unanswered step means: which error its caller gets, and how its end is told."""

from __future__ import annotations

from websockets.exceptions import ConnectionClosed

from rollgym.common.errors import EnvLost, EnvProtocolError, PayloadTooLarge, RollgymError
from rollgym.common.failures import FailureClass, failure_class
from rollgym.resources.frames import ErrorFrame
from rollgym.resources.verdicts import TOO_BIG_CLOSE, close_code

UNANSWERED = (TimeoutError, ConnectionClosed, EnvProtocolError)
"""What `EpisodeSocket.request` raises."""


def loss(error: Exception, *, step_timeout_s: float, max_frame_bytes: int) -> tuple[type[RollgymError], str]:
    """The error and the reason with which a session ends whose step got `error`, one of UNANSWERED, for an answer."""
    if isinstance(error, EnvProtocolError):
        return EnvProtocolError, error.message
    if isinstance(error, TimeoutError):
        return EnvLost, f"no answer to a step within {step_timeout_s:g} s"
    assert isinstance(error, ConnectionClosed)
    if close_code(error) == TOO_BIG_CLOSE:
        said = f"the environment's answer is larger than max_frame_bytes, {max_frame_bytes:,} ({error})"
        return PayloadTooLarge, said
    return EnvLost, f"the connection closed during a step ({error})"


def loss_told(frame: ErrorFrame) -> tuple[type[RollgymError], str]:
    """The same for an error frame that is not the environment's own answer."""
    told = f"the environment server answered {frame.code or 'an error'}: {frame.message}"
    return EnvLost if frame.ends_session else EnvProtocolError, told


def loss_kind(error: RollgymError) -> str:
    """The failure vocabulary's word for an error that ended a session."""
    return FailureClass.ENV_PROTOCOL if isinstance(error, PayloadTooLarge) else failure_class(error)
