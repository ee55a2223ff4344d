"""What the model is shown first, and the Responses object that a rollout amounts to."""

from typing import Any

import pytest

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, ModelError
from rollgym.driver.conversation import (
    final_response,
    first_input,
    function_calls,
    marked_truncated,
    observation_text,
    offered_tools,
    with_response,
)
from rollgym.driver.policies import CallClock, ModelTurn, SeedAnswer, Usage
from rollgym.driver.policies.items import function_call
from rollgym.driver.task_view import TaskView


def task(params: dict[str, Any], **fields: Any) -> TaskView:
    return TaskView.decode(jsonx.dumps({"responses_create_params": params, **fields}))


def model_turn(*items: dict[str, Any], usage: Usage | None = None) -> ModelTurn:
    return ModelTurn.of(items, model="m", response_id="r", clock=CallClock(), usage=usage)


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({}, None, id="empty"),
        pytest.param("  ", None, id="blank"),
        pytest.param("Go.", "Go.", id="text"),
        pytest.param({"message": "Go.", "metadata": {"a": 1}, "tools": [1]}, "Go.", id="bookkeeping-left-out"),
        pytest.param({"message": "Go.", "board": [1, 2], "error": None}, 'Go.\n\n{"board":[1,2]}', id="text-then-json"),
        pytest.param({"legal": [0, 1]}, '{"legal":[0,1]}', id="json-only"),
        pytest.param([1, 2], "[1,2]", id="list"),
    ],
)
def test_an_observation_is_said_as_text(observation: Any, text: str | None) -> None:
    assert observation_text(observation) == text


def test_the_model_sees_the_rows_input_and_then_the_observation() -> None:
    row = task({"input": [{"role": "system", "content": "s"}]})
    items = [jsonx.loads(item) for item in first_input(row, SeedAnswer(observation={"prompt": "p"}))]
    assert items == [{"role": "system", "content": "s"}, {"type": "message", "role": "user", "content": "p"}]
    assert [jsonx.loads(item)["content"] for item in first_input(task({"input": "hi"}), SeedAnswer())] == ["hi"]
    assert first_input(task({}), SeedAnswer()) == []


@pytest.mark.parametrize("value", [3, ["text"], {"role": "user"}])
def test_an_input_of_another_form_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest, match="input must be a text or a list of items"):
        first_input(task({"input": value}), SeedAnswer())


def test_the_rows_tools_win_over_the_environments() -> None:
    seed = SeedAnswer(tools=[b'{"name":"theirs"}'])
    assert offered_tools(task({"tools": [{"name": "own"}]}), seed) == (b'{"name":"own"}',)
    without: list[dict[str, Any]] = [{}, {"tools": []}, {"tools": None}]
    assert all(offered_tools(task(params), seed) == seed.tools for params in without)
    with pytest.raises(BadRequest, match="tools is no list"):
        offered_tools(task({"tools": "all"}), seed)


def test_calls_are_read_in_order_whatever_stands_between_them() -> None:
    turn = model_turn(
        function_call("a", "{}", "c1", "i1"),
        {"type": "reasoning", "summary": [], "id": None},
        function_call("b", '{"x": "\ud800"}'.encode("utf-8", "replace").decode(), "c2", "i2"),
    )
    assert [(call.name, call.call_id) for call in function_calls(turn)] == [("a", "c1"), ("b", "c2")]


def test_arguments_that_a_server_sends_as_an_object_are_read_as_text() -> None:
    turn = model_turn({"type": "function_call", "name": "a", "call_id": "c", "arguments": {"x": 1}})
    assert function_calls(turn)[0].arguments == '{"x":1}'


def test_output_that_is_no_item_is_a_model_error() -> None:
    turn = model_turn()
    spoiled = ModelTurn(response=turn.response, output=(b"3",), finish="completed", timing=turn.timing)
    with pytest.raises(ModelError, match="cannot be read"):
        function_calls(spoiled)


def test_the_final_response_holds_all_items_and_all_counted_tokens() -> None:
    last = model_turn({"type": "message", "content": []}, usage=Usage(1, None, 1, None, 2))
    response = jsonx.loads(final_response(last, [b'{"a":1}', b'{"b":2}'], Usage(9, 2, 3, None, 12), max_steps=False))
    assert response["output"] == [{"a": 1}, {"b": 2}]
    assert response["usage"]["total_tokens"] == 12
    assert (response["id"], response["status"]) == ("r", "completed")


def test_tokens_that_nobody_counted_are_absent_from_the_final_response() -> None:
    assert "usage" not in jsonx.loads(final_response(model_turn(), [], None, max_steps=False))


def test_used_up_turns_make_the_response_incomplete_and_say_why() -> None:
    response = jsonx.loads(final_response(model_turn(), [], None, max_steps=True))
    assert response["status"] == "incomplete"
    assert response["metadata"] == {"ng_termination_reason": "max_steps"}


def test_the_verify_body_is_the_row_byte_for_byte_and_the_response() -> None:
    row = b'{"responses_create_params": {"input": "caf\\u00e9 \\ud800"}, "big": 12345678901234567890, "response": 1}'
    body = with_response(row, b'{"output":[]}')
    assert b'{"input": "caf\\u00e9 \\ud800"}' in body
    assert b"12345678901234567890" in body
    assert jsonx.loads(body)["response"] == {"output": []}


def test_a_truncated_rollout_is_marked_in_its_row() -> None:
    assert jsonx.loads(marked_truncated(b'{"reward": 0.5}')) == {"reward": 0.5, "truncated": True}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        pytest.param(b"[]", "cannot be read", id="no-object"),
        pytest.param(b"{", "cannot be read", id="no-json"),
        pytest.param(b'{"env": "x"}', "no responses_create_params", id="no-params"),
        pytest.param(b'{"responses_create_params": 3}', "cannot be read", id="params-no-object"),
        pytest.param(b'{"responses_create_params": {}, "env": 3}', "cannot be read", id="env-no-text"),
    ],
)
def test_a_row_that_is_no_task_is_refused(row: bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        TaskView.decode(row)


@pytest.mark.parametrize(
    ("fields", "task_id", "rollout_id"),
    [
        pytest.param({}, "unknown", "unknown", id="nothing"),
        pytest.param({"_ng_task_index": 0, "_ng_rollout_index": 2}, "0", "0-2", id="indices"),
        pytest.param(
            {"_ng_task_index": 4, "_ng_rollout_index": 0, "_ng_attempt_index": 2}, "4", "4-0-a2", id="second-attempt"
        ),
        pytest.param({"task_id": "t", "_ng_task_index": 4, "_ng_rollout_index": 0}, "t", "4-0", id="own-id"),
    ],
)
def test_ids_are_built_as_nemo_gym_builds_them(fields: dict[str, Any], task_id: str, rollout_id: str) -> None:
    view = task({}, **fields)
    assert (view.task_id, view.rollout_id) == (task_id, rollout_id)
