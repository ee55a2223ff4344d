"""Frames: what is a request, what is answered to what is none, and answers that are no JSON."""

import json
from typing import Any

import pytest

from rollgym.env_bundle import frames
from rollgym.env_bundle.environment import Observation
from rollgym.env_bundle.frames import BadFrame, ErrorCode, FrameRequest, RequestType


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"type":"reset"}', FrameRequest(RequestType.RESET, {})),
        ('{"type":"reset","data":{"seed":1}}', FrameRequest(RequestType.RESET, {"seed": 1})),
        ('{"type":"step","data":{"guess":"crane"}}', FrameRequest(RequestType.STEP, {"guess": "crane"})),
        ('{"type":"state"}', FrameRequest(RequestType.STATE, {})),
        ('{"type":"mcp","data":{}}', FrameRequest(RequestType.MCP, {})),
        ('{"type":"close"}', FrameRequest(RequestType.CLOSE, {})),
    ],
)
def test_requests(raw: str, expected: FrameRequest) -> None:
    assert frames.read_request(raw) == expected


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param("{", ErrorCode.INVALID_JSON, id="no-json"),
        pytest.param('{"type":"step","data":{"reward":NaN}}', ErrorCode.INVALID_JSON, id="nan"),
        pytest.param("[1]", ErrorCode.VALIDATION_ERROR, id="no-object"),
        pytest.param("{}", ErrorCode.UNKNOWN_TYPE, id="no-type"),
        pytest.param('{"type":"jump"}', ErrorCode.UNKNOWN_TYPE, id="unknown-type"),
        pytest.param('{"type":7}', ErrorCode.UNKNOWN_TYPE, id="type-is-a-number"),
        pytest.param('{"type":"step"}', ErrorCode.VALIDATION_ERROR, id="step-without-data"),
        pytest.param('{"type":"reset","data":[]}', ErrorCode.VALIDATION_ERROR, id="data-is-a-list"),
        pytest.param('{"type":"state","data":{}}', ErrorCode.VALIDATION_ERROR, id="state-with-data"),
        pytest.param('{"type":"close","extra":1}', ErrorCode.VALIDATION_ERROR, id="unknown-field"),
    ],
)
def test_what_is_no_request_has_its_code(raw: str, code: ErrorCode) -> None:
    with pytest.raises(BadFrame) as caught:
        frames.read_request(raw)
    frame = json.loads(caught.value.frame())
    assert frame["type"] == "error"
    assert frame["data"]["code"] == code
    assert ("errors" in frame["data"]) == (code is ErrorCode.VALIDATION_ERROR)


def test_an_observation_has_reward_and_done_beside_it() -> None:
    class Seen(Observation):
        text: str

    frame = json.loads(frames.observation(Seen(text="hi", reward=0.5, done=True)))
    assert frame == {"type": "observation", "data": {"observation": {"text": "hi"}, "reward": 0.5, "done": True}}


def test_metadata_is_sent_where_there_is_some() -> None:
    assert json.loads(frames.observation(Observation(metadata={"a": 1})))["data"]["metadata"] == {"a": 1}


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_an_environments_reward_that_is_no_number_is_passed_on_as_the_word(reward: float) -> None:
    sent: Any = json.loads(frames.observation(Observation(reward=reward)))["data"]["reward"]
    assert repr(sent) == repr(reward)


def test_an_observations_numbers_that_are_none_are_passed_on_as_the_words() -> None:
    class Measured(Observation):
        level: float
        more: Any

    frame = frames.observation(Measured(level=float("nan"), more={"deep": [float("inf")]}))
    assert b'"observation":{"level":NaN,"more":{"deep":[Infinity]}}' in frame


def test_a_lone_surrogate_is_written_as_its_escape() -> None:
    class Said(Observation):
        text: str

    assert rb'"text": "\ud800"' in frames.observation(Said(text="\ud800"))
