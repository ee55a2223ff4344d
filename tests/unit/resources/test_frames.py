"""Frames: what an environment server's bytes mean, good and bad."""

import json

import pytest

from rollgym.common.errors import EnvProtocolError
from rollgym.resources.frames import ErrorFrame, Observation, decode
from rollgym.resources.rewards import parse_reward


def read(text: bytes) -> Observation:
    frame = decode(text)
    assert isinstance(frame, Observation)
    return frame


def test_an_observation_keeps_its_bytes() -> None:
    frame = read(
        b'{"type":"observation","data":{"observation":{"a": [1,  2]},"reward":0.50,"done":true,"metadata":{"k":1}}}'
    )
    assert frame == Observation(b'{"a": [1,  2]}', b"0.50", True, b'{"k":1}')


def test_what_may_be_missing() -> None:
    assert read(b'{"type":"observation","data":{"observation":{}}}') == Observation(b"{}", None, False, None)


def test_an_observation_may_be_any_json() -> None:
    assert read(
        '{"type":"observation","data":{"observation":"grün","reward":null,"done":null}}'.encode()
    ).observation == ('"grün"'.encode())


@pytest.mark.parametrize("raw", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_reward_that_is_no_number_is_kept_as_the_text_it_is(raw: bytes) -> None:
    frame = read(b'{"type":"observation","data":{"observation":{"x":1},"reward":' + raw + b',"done":false}}')
    assert frame.reward is not None
    with pytest.raises(ValueError, match="finite number"):
        parse_reward(frame.reward)


def test_an_observation_with_nan_becomes_strict_json() -> None:
    frame = read(b'{"type":"observation","data":{"observation":{"x":NaN,"y":[Infinity]},"reward":1,"done":false}}')
    assert json.loads(frame.observation) == {"x": "NaN", "y": ["Infinity"]}
    assert frame.reward == b"1"


def test_a_lone_surrogate_becomes_its_escape_as_text() -> None:
    frame = read(b'{"type":"observation","data":{"observation":{"x":"a\\ud800b"},"reward":1,"done":false}}')
    assert json.loads(frame.observation) == {"x": "a\\ud800b"}


def test_an_error_frame() -> None:
    frame = decode(
        b'{"type":"error","data":{"message":"full","code":"CAPACITY_REACHED","active_sessions":4,"max_sessions":4}}'
    )
    assert frame == ErrorFrame("CAPACITY_REACHED", "full", 4, 4)
    assert isinstance(frame, ErrorFrame)
    assert frame.at_capacity
    assert frame.ends_session


@pytest.mark.parametrize(
    ("code", "ends", "models"),
    [
        ("EXECUTION_ERROR", False, True),
        ("VALIDATION_ERROR", False, True),
        ("UNKNOWN_TYPE", False, False),
        ("FACTORY_ERROR", True, False),
        ("SESSION_ERROR", True, False),
    ],
)
def test_which_errors_end_a_session_and_which_the_model_sees(code: str, ends: bool, models: bool) -> None:
    frame = ErrorFrame(code, "")
    assert (frame.ends_session, frame.of_the_environment) == (ends, models)


@pytest.mark.parametrize(
    "data", [b'{"type":"error"}', b'{"type":"error","data":{"message":{"deep":1},"code":7,"max_sessions":"many"}}']
)
def test_sloppy_error_frames_are_errors_all_the_same(data: bytes) -> None:
    frame = decode(data)
    assert isinstance(frame, ErrorFrame)
    assert frame.max_sessions is None


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b"hello", "no JSON", id="no JSON"),
        pytest.param(b'{"type":"observation","data":', "no JSON", id="cut off"),
        pytest.param(b"[]", "no OpenEnv", id="an array"),
        pytest.param(b'{"data":{}}', "no OpenEnv", id="no type"),
        pytest.param(b'{"type":5,"data":{}}', "no OpenEnv", id="type is a number"),
        pytest.param(b'{"type":"state","data":{}}', "'state'", id="another type"),
        pytest.param(b'{"type":"observation","data":[]}', "wrong types", id="data is an array"),
        pytest.param(b'{"type":"observation","data":{"reward":1}}', "without an observation", id="no observation"),
        pytest.param(b'{"type":"observation","data":{"observation":{},"done":"no"}}', "wrong types", id="done is text"),
        pytest.param(b'{"type":"observation","data":{"observation":"\xff\xfe"}}', "no text", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "no OpenEnv", id="nested too deeply"),
    ],
)
def test_frames_that_are_no_openenv(raw: bytes, said: str) -> None:
    with pytest.raises(EnvProtocolError, match=said) as caught:
        decode(raw)
    assert caught.value.data["size"] == len(raw)
    assert len(caught.value.data["frame"]) <= 200
