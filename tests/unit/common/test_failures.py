"""Which failure class an error is, and whether another attempt can help."""

import pytest

from rollgym.common import errors
from rollgym.common.failures import FailureClass, failure_class


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.EnvBusy("x"), FailureClass.ENV_BUSY),
        (errors.ServerFull("x"), FailureClass.ENV_BUSY),
        (errors.SessionUnknown("x"), FailureClass.ENV_LOST),
        (errors.SessionReclaimed("x"), FailureClass.SESSION_RECLAIMED),
        (errors.ModelTimeout("x"), FailureClass.MODEL_TIMEOUT),
        (errors.RolloutTimeout("x"), FailureClass.ROLLOUT_TIMEOUT),
        (errors.BadRequest("x"), FailureClass.AGENT_REQUEST_FAILED),
        (errors.PayloadTooLarge("x"), FailureClass.AGENT_REQUEST_FAILED),
        (errors.Unauthorized("x"), FailureClass.AGENT_REQUEST_FAILED),
        (errors.InvalidReward("x"), FailureClass.INVALID_REWARD),
        (errors.RollgymError("x"), FailureClass.INTERNAL),
        (KeyError("x"), FailureClass.INTERNAL),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_error_has_its_class(error: Exception, expected: FailureClass) -> None:
    assert failure_class(error) is expected


def test_what_a_repeat_cannot_mend_is_final() -> None:
    assert {kind for kind in FailureClass if not kind.retryable} == {
        FailureClass.ENV_PROTOCOL,
        FailureClass.INVALID_REWARD,
        FailureClass.TOOL_ERROR,
        FailureClass.INTERNAL,
    }
