"""Errors as data: every type crosses the wire, a pickle and a process, and comes back as what it was."""

import pickle
from collections.abc import Iterator

import pytest

from rollgym.common import jsonx
from rollgym.common.errors import RequestError, RollgymError, error_from_wire
from rollgym.common.failures import FailureClass, failure_class


def _kinds(base: type[RollgymError] = RollgymError) -> Iterator[type[RollgymError]]:
    for kind in base.__subclasses__():
        if kind.__module__ == RollgymError.__module__:
            yield kind
            yield from _kinds(kind)


WITH_CODE = [kind for kind in _kinds() if "code" in kind.__dict__]


@pytest.mark.parametrize("kind", WITH_CODE, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_the_wire_as_itself(kind: type[RollgymError]) -> None:
    sent = kind("it broke", waited_s=1.5, attempts=3)
    found = error_from_wire(jsonx.loads(jsonx.dumps(sent.to_wire())), status=sent.status)
    assert type(found) is kind
    assert found.message == "it broke"
    assert found.data == {"waited_s": 1.5, "attempts": 3, "http_status": sent.status}


@pytest.mark.parametrize("kind", [RollgymError, *_kinds()], ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_a_pickle_as_itself(kind: type[RollgymError]) -> None:
    found = pickle.loads(pickle.dumps(kind("it broke", limit=8)))
    assert (type(found), found.message, found.data, str(found)) == (kind, "it broke", {"limit": 8}, "it broke")


def test_no_two_types_share_a_code() -> None:
    codes = [kind.code for kind in WITH_CODE]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a-list"),
        pytest.param({"code": "env_busy"}, id="no-message"),
        pytest.param({"code": 5, "message": "x"}, id="code-that-is-no-text"),
        pytest.param({"code": "of_tomorrow", "message": "x"}, id="unknown-code"),
        pytest.param({"detail": "Not Found"}, id="another-servers-error"),
    ],
)
def test_what_is_no_error_of_ours_is_none(wire: object) -> None:
    assert error_from_wire(wire, status=500) is None


@pytest.mark.parametrize("data", [None, "text", 5, {"message": "twice"}], ids=str)
def test_odd_data_on_the_wire_does_no_harm(data: object) -> None:
    found = error_from_wire({"code": "env_busy", "message": "full", "data": data})
    assert found is not None
    assert (found.message, found.data) == ("full", {})


@pytest.mark.parametrize(
    "kind", [kind for kind in WITH_CODE if not issubclass(kind, RequestError)], ids=lambda k: k.code
)
def test_every_error_of_an_attempt_has_a_class_of_the_vocabulary(kind: type[RollgymError]) -> None:
    found = failure_class(kind("x"))
    assert found in FailureClass
    never_of_an_attempt = {"configuration", "artifact", "head"}
    assert (found is FailureClass.INTERNAL) == (kind.code in never_of_an_attempt)


@pytest.mark.parametrize(
    ("error", "expected", "retryable"),
    [
        (ValueError("a bug"), FailureClass.INTERNAL, False),
        (RollgymError("ours"), FailureClass.INTERNAL, False),
        (error_from_wire({"code": "server_full", "message": "x"}), FailureClass.ENV_BUSY, True),
        (error_from_wire({"code": "session_reclaimed", "message": "x"}), FailureClass.SESSION_RECLAIMED, True),
        (error_from_wire({"code": "invalid_reward", "message": "x"}), FailureClass.INVALID_REWARD, False),
        (error_from_wire({"code": "env_protocol", "message": "x"}), FailureClass.ENV_PROTOCOL, False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_class_says_whether_another_attempt_can_help(
    error: BaseException, expected: FailureClass, retryable: bool
) -> None:
    assert failure_class(error) is expected
    assert failure_class(error).retryable is retryable
