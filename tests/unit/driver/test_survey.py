"""The fast look at an answer: the same as msgspec finds, or nothing."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.common.errors import AgentRequestFailed, InvalidReward
from rollgym.driver.evals.shards import HEAVY, OF_RESPONSE
from rollgym.driver.payloads import Payload
from rollgym.driver.survey import LARGEST_BYTES, outline, picked, survey

CALL = {
    "model_call_id": "c1",
    "request": {"input": "long"},
    "response": {"output": []},
    "response_metadata": {"response_id": "r1", "model_ref": {"type": "responses_api_models", "name": "m"}},
    "token_stats": {"prompt_tokens": 7, "completion_tokens": 2},
}
TRAJECTORY = {
    "invocations": [{"invocation_id": "root", "model_calls": [{"model_call_id": "c1"}], "conversation": ["long"]}],
    "turns": [{"invocation_id": "root", "question": "long"}],
    "model_calls": [CALL],
    "tool_calls": [{"invocation_id": "root", "output": "long"}],
    "gaps": [],
}
ANSWER = {
    "reward": 0.5,
    "tags": {"a": 1},
    "response": {"status": "incomplete", "usage": {"input_tokens": 9}, "output": ["long"]},
    "responses_create_params": {"input": "long"},
    "ng_trajectory": TRAJECTORY,
}


def test_a_survey_has_all_names_the_fields_asked_for_and_what_the_trajectory_says() -> None:
    found = survey(json.dumps(ANSWER, indent=1).encode(), ("reward", "tags", "truncated"))
    assert found is not None
    assert found.names == set(ANSWER)
    assert {name: json.loads(bytes(raw)) for name, raw in found.fields.items()} == {"reward": 0.5, "tags": {"a": 1}}
    assert (found.response.incomplete, found.response.tokens.input, found.response.tokens.output) == (True, 9, None)
    assert found.trajectory is not None
    (call,) = found.trajectory.model_calls
    assert (call.model_call_id, call.token_stats.prompt_tokens) == ("c1", 7)
    assert [turn.invocation_id for turn in found.trajectory.turns] == ["root"]


def test_a_trajectory_of_null_is_none() -> None:
    found = survey(b'{"ng_trajectory": null}', ())
    assert found is not None
    assert found.names == {"ng_trajectory"}
    assert found.trajectory is None


DEEP = b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}"
NOT_FOR_A_SURVEY = {
    "empty": b"",
    "no-json": b"<html>",
    "torn": b'{"a": ',
    "more-behind-it": b"{} {}",
    "a-list": b"[]",
    "a-mark-before-it": b'\xef\xbb\xbf{"reward": 1}',
    "not-utf-8": b'{"a": "\xff"}',
    "half-a-pair": b'{"a": "\\ud800"}',
    "not-a-number": b'{"a": NaN}',
    "too-large-a-number": b'{"a": 1e999}',
    "a-long-integer": b'{"a": 100000000000000000000}',
    "nested-deeply": DEEP,
    "a-name-twice": b'{"reward": 1, "reward": 0}',
    "a-name-twice-in-the-response": b'{"response": {"status": "a", "status": "b"}}',
    "a-name-twice-in-the-trajectory": b'{"ng_trajectory": {"turns": [], "turns": []}}',
    "very-many-names": b"{%s}" % b",".join(b'"%d": 1' % number for number in range(1000)),
    "a-name-twice-in-a-call": b'{"ng_trajectory": {"model_calls": [{"model_call_id": "a", "model_call_id": "b"}]}}',
    "a-trajectory-that-is-a-text": b'{"ng_trajectory": "none"}',
    "turns-of-null": b'{"ng_trajectory": {"turns": null}}',
    "a-turn-that-is-a-text": b'{"ng_trajectory": {"turns": ["one"]}}',
    "a-turn-of-nobody": b'{"ng_trajectory": {"turns": [{}]}}',
    "a-count-that-is-a-text": b'{"ng_trajectory": {"model_calls": [{"token_stats": {"prompt_tokens": "7"}}]}}',
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in NOT_FOR_A_SURVEY.items()])
def test_what_is_not_plain_gets_no_survey(body: bytes) -> None:
    assert survey(body, ("reward",)) is None
    assert survey(b'{"reward": 1}', ("reward",)) is not None, "the parser is free again"


def test_an_answer_of_any_size_gets_read_and_a_very_large_one_without_a_survey() -> None:
    body = b'{"reward": 1.0, "x": "%s"}' % (b"x" * LARGEST_BYTES)
    assert survey(body, ("reward",)) is None
    assert Payload(body).facts().reward == 1.0


def test_each_thread_has_a_parser() -> None:
    inside, leave = threading.Event(), threading.Event()

    def fields() -> Any:
        inside.set()
        assert leave.wait(10)
        yield "reward"

    other = threading.Thread(target=survey, args=(b'{"reward": 1}', fields()))
    other.start()
    try:
        assert inside.wait(10)
        assert survey(b'{"reward": 2}', ("reward",)) is not None
    finally:
        leave.set()
        other.join()


def outcome(body: bytes, *, with_survey: bool) -> Any:
    """All that a run makes of an answer; what it is without a survey is msgspec's."""
    try:
        payload = Payload(body, finished=not with_survey)
        marks = payload.failure_marks()
        payload.put("_ng_task_index", 3)
        payload.drop("_ng_attempt_index")
        payload.build_perf(5.0)
        facts = payload.facts()
        return marks, facts, b"".join(payload.line())
    except (AgentRequestFailed, InvalidReward) as error:
        return type(error), error.message


NAMES = st.sampled_from([*ANSWER, *TRAJECTORY, *CALL, *CALL["token_stats"], "invocation_id", "usage", "status"])
SMALL = st.none() | st.booleans() | st.integers(-5, 10**19) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(SMALL, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4))


TWICE = [
    (b'"reward"', b'"tags"'),
    (b'"question"', b'"invocation_id"'),
    (b'"completion_tokens"', b'"prompt_tokens"'),
    (b'"response_id"', b'"model_ref"'),
    (b'"output"', b'"usage"'),
]
"""Names, and others beside them that they become."""


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A good answer with parts of it replaced, names doubled and bytes changed."""
    answer = json.loads(json.dumps(ANSWER))
    for _ in range(draw(st.integers(0, 3))):
        at = answer
        while draw(st.booleans()):
            inner = [value for value in (at.values() if isinstance(at, dict) else at) if isinstance(value, dict | list)]
            if not inner:
                break
            at = draw(st.sampled_from(inner))
        if isinstance(at, dict):
            at[draw(NAMES)] = draw(VALUES)
        else:
            at.append(draw(VALUES))
    text = json.dumps(answer, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    body = text.encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        body = body.replace(*draw(st.sampled_from(TWICE)))
    for _ in range(draw(st.integers(0, 1))):
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(max_size=2)) + body[at + 1 :]
    return body


def measured(body: bytes) -> Any:
    """All that an aggregate makes of a row."""
    try:
        payload = Payload(body, finished=True)
        return payload.facts(), payload.numbers(), payload.value("tags")
    except (AgentRequestFailed, InvalidReward) as error:
        return type(error)


@settings(max_examples=400, deadline=None)
@given(body=answers())
def test_an_outline_comes_to_the_same_numbers_as_the_whole_row(body: bytes) -> None:
    light = outline(body, HEAVY, OF_RESPONSE)
    if light is not None:
        kept = json.loads(light)
        assert not any(isinstance(kept.get(name), dict | list) for name in HEAVY)
        assert [name for name in json.loads(body) if name in kept] == list(kept)
        assert measured(light) == measured(body)


def test_an_outline_has_what_is_not_left_out() -> None:
    light = outline(json.dumps(ANSWER).encode(), {"ng_trajectory", "tags"}, ("usage",))
    assert light is not None
    assert json.loads(light) == {
        "reward": 0.5,
        "response": {"usage": {"input_tokens": 9}},
        "responses_create_params": {"input": "long"},
    }


@pytest.mark.parametrize(
    "body",
    [
        b'{"response": "none"}',
        b'{"response": null}',
        b'{"a": 1, "a": 2}',
        b'{"weird": 9.0, "weird\\u0000k": 3.0}',
        b'{"a\\u0000b": 3}',
        b"[]",
    ],
    ids=str,
)
def test_a_row_of_another_shape_has_no_outline(body: bytes) -> None:
    assert outline(body, (), ()) is None


DOUBLED = {
    "in-the-usage": b'{"reward": 1, "response": {"usage": {"input_tokens": "n/a", "input_tokens": 5}}}',
    "in-the-usage-last": b'{"reward": 1, "response": {"usage": {"input_tokens": 4, "input_tokens": 5}}}',
    "deep-in-the-usage": b"""{"reward": 1, "response": {"usage": {"input_tokens": 5, "input_tokens_details":
        {"cached_tokens": 1, "cached_tokens": "x"}}}}""",
    "in-a-reference": b"""{"reward": 1, "ng_trajectory": {"invocations": [{"invocation_id": "i", "model_calls":
        [{"model_call_id": 1, "model_call_id": "c"}]}]}}""",
    "in-token-stats": b"""{"reward": 1, "ng_trajectory": {"invocations": [{"invocation_id": "i"}], "model_calls":
        [{"token_stats": {"prompt_tokens": "x", "prompt_tokens": 1}}]}}""",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in DOUBLED.items()])
def test_names_that_are_twice_in_small_records_are_read_by_msgspec(body: bytes) -> None:
    assert outcome(body, with_survey=True) == outcome(body, with_survey=False)


@pytest.mark.parametrize("records", [1, 99, 100, 101, 800])
def test_a_trajectory_of_any_length_says_the_same(records: int) -> None:
    turns = [{"invocation_id": "root", "question": "long"} for _ in range(records)]
    body = json.dumps(ANSWER | {"ng_trajectory": TRAJECTORY | {"turns": turns}}).encode()
    found = survey(body, ("reward",))
    assert found is not None
    assert found.trajectory is not None
    assert len(found.trajectory.turns) == records
    assert outcome(body, with_survey=True) == outcome(body, with_survey=False)


def test_what_is_picked_is_there_as_it_is_in_the_row() -> None:
    assert picked(json.dumps(ANSWER).encode(), ("reward", "tags", "env")) == b'{"reward":0.5,"tags":{"a":1}}'
    assert picked(b'{"reward": 1, "reward": 2}', ("reward",)) is None


@settings(max_examples=400, deadline=None)
@given(body=answers())
def test_with_a_survey_an_answer_comes_to_what_it_does_without(body: bytes) -> None:
    assert outcome(body, with_survey=True) == outcome(body, with_survey=False)
