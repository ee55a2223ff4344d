"""Responses ⇄ Chat Completions: what one says, the other says, and nothing gets lost on the way."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, ModelError
from rollgym.driver.policies.chat_answer import StreamedCompletion, output_items, response_of
from rollgym.driver.policies.chat_request import chat_messages, chat_params, chat_tools
from rollgym.driver.policies.openai_chat import ChatTranscript

WEATHER = {"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object"}, "strict": False}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
calls = st.builds(
    lambda name, arguments: {"type": "function", "function": {"name": name, "arguments": arguments}}, texts, texts
)


@st.composite
def assistant_messages(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    content = draw(st.none() | texts | st.lists(texts, min_size=2, max_size=3))
    message["content"] = [{"type": "text", "text": text} for text in content] if isinstance(content, list) else content
    if draw(st.booleans()):
        message["refusal"] = draw(texts)
    if draw(st.booleans()):
        message["reasoning_content"] = draw(texts)
    wanted = draw(st.lists(calls, max_size=3))
    if wanted:
        message["tool_calls"] = [{"id": f"call_{place}", **call} for place, call in enumerate(wanted)]
    return message


def said(message: dict[str, Any]) -> dict[str, Any]:
    """A message with the same meaning spelled one way: an assistant that says nothing says an empty text."""
    silent = message["content"] is None and not ({"refusal", "reasoning_content", "tool_calls"} & message.keys())
    return {**message, "content": ""} if silent else message


@given(assistant_messages())
def test_an_assistant_message_survives_the_way_to_items_and_back(message: dict[str, Any]) -> None:
    items = output_items(message, None, "r1")
    assert chat_messages(items) == [said(message)]


@given(st.lists(assistant_messages(), max_size=4), texts)
def test_a_conversation_of_items_keeps_every_call_with_its_output(messages: list[dict[str, Any]], text: str) -> None:
    items: list[dict[str, Any]] = [{"role": "user", "content": text}]
    expected: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for number, message in enumerate(messages):
        items += output_items(message, None, f"r{number}")
        expected.append(said(message))
        for call in message.get("tool_calls", ()):
            items.append({"type": "function_call_output", "call_id": call["id"], "output": text})
            expected.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        items.append({"role": "user", "content": "go on"})
        expected.append({"role": "user", "content": "go on"})
    assert chat_messages(items) == expected


@given(st.lists(assistant_messages(), min_size=1, max_size=4), st.data())
def test_a_transcript_grown_in_steps_equals_the_whole_conversation(
    messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    items: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        items += output_items(message, None, f"r{number}")
        if data.draw(st.booleans()):
            items.append({"type": "function_call_output", "call_id": "call_0", "output": "o"})
    encoded = [jsonx.dumps(item) for item in items]
    transcript = ChatTranscript()
    for end in sorted(data.draw(st.sets(st.integers(0, len(items))))):
        grown = transcript.messages(encoded[:end])
        assert [jsonx.loads(message) for message in grown] == chat_messages(items[:end])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        pytest.param({"role": "user", "content": "hi"}, {"role": "user", "content": "hi"}, id="easy-message"),
        pytest.param(
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be brief"}]},
            {"role": "developer", "content": [{"type": "text", "text": "be brief"}]},
            id="developer-parts",
        ),
        pytest.param(
            {"role": "user", "content": [{"type": "input_image", "image_url": "http://x/i.png", "detail": "low"}]},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "http://x/i.png", "detail": "low"}}],
            },
            id="image",
        ),
        pytest.param(
            {"role": "user", "content": [{"type": "input_file", "file_id": "f1", "filename": "a.pdf"}]},
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "f1", "filename": "a.pdf"}}]},
            id="file",
        ),
        pytest.param(
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "o"}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "o"}]},
            id="tool-output-parts",
        ),
        pytest.param(
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "a"}],
                "content": [{"type": "reasoning_text", "text": "b"}],
            },
            {"role": "assistant", "content": None, "reasoning_content": "a\nb"},
            id="reasoning-summary-and-content",
        ),
    ],
)
def test_items_have_their_chat_form(item: dict[str, Any], message: dict[str, Any]) -> None:
    assert chat_messages([item]) == [message]


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"type": "mcp_call", "id": "m"}, id="mcp-call"),
        pytest.param({"type": "message", "role": "critic", "content": "x"}, id="unknown-role"),
        pytest.param({"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}, id="file-url"),
        pytest.param({"role": "assistant", "content": [{"type": "input_image"}]}, id="assistant-image"),
    ],
)
def test_what_chat_has_no_form_for_is_refused_not_dropped(item: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="no form in Chat Completions") as caught:
        chat_messages([item])
    assert caught.value.data["terminal"] is True


@pytest.mark.parametrize(
    ("given_params", "converted"),
    [
        pytest.param({"max_output_tokens": 9}, {"max_completion_tokens": 9}, id="output-limit"),
        pytest.param({"reasoning": {"effort": "low", "summary": None}}, {"reasoning_effort": "low"}, id="reasoning"),
        pytest.param({"text": {"verbosity": "low"}}, {"verbosity": "low"}, id="verbosity"),
        pytest.param(
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}, "strict": True},
                }
            },
            id="json-schema",
        ),
        pytest.param(
            {"text": {"format": {"type": "json_object"}}},
            {"response_format": {"type": "json_object"}},
            id="json-object",
        ),
        pytest.param({"text": {"format": {"type": "text"}}}, {}, id="plain-text"),
        pytest.param({"tool_choice": "required"}, {"tool_choice": "required"}, id="tool-choice-word"),
        pytest.param(
            {"tool_choice": {"type": "function", "name": "f"}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            id="tool-choice-function",
        ),
        pytest.param({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}, id="logprobs"),
        pytest.param(
            {"temperature": 0.5, "top_k": 20, "seed": 1},
            {"temperature": 0.5, "top_k": 20, "seed": 1},
            id="the-rest-passes",
        ),
        pytest.param({"instructions": "x", "user": None, "truncation": "disabled"}, {}, id="nothing-to-say"),
    ],
)
def test_parameters_take_their_chat_names(given_params: dict[str, Any], converted: dict[str, Any]) -> None:
    assert chat_params(given_params, max_tokens_field="max_completion_tokens") == converted


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"previous_response_id": "r"}, id="previous-response"),
        pytest.param({"truncation": "auto"}, id="truncation"),
        pytest.param({"reasoning": {"effort": "low", "summary": "auto"}}, id="reasoning-summary"),
        pytest.param({"tool_choice": {"type": "web_search"}}, id="hosted-tool"),
    ],
)
def test_parameters_without_a_chat_form_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="no form"):
        chat_params(params, max_tokens_field="max_tokens")


def test_tools_lose_only_what_is_null() -> None:
    function = {"name": "weather", "description": "d", "parameters": {"type": "object"}, "strict": False}
    assert chat_tools([WEATHER, {**WEATHER, "strict": None}]) == [
        {"type": "function", "function": function},
        {"type": "function", "function": {k: v for k, v in function.items() if k != "strict"}},
    ]
    with pytest.raises(BadRequest, match="tool 'web_search'"):
        chat_tools([{"type": "web_search"}])


def completion(message: dict[str, Any], finish_reason: str = "stop", **fields: Any) -> dict[str, Any]:
    return {
        "id": "cmpl",
        "created": 5,
        "model": "m",
        "choices": [{"message": message, "finish_reason": finish_reason}],
        **fields,
    }


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_a_finish_reason_becomes_a_status(finish_reason: str, status: str, reason: str | None) -> None:
    response = response_of(completion({"role": "assistant", "content": "x"}, finish_reason), "r")
    assert response["status"] == status
    assert response["incomplete_details"] == ({"reason": reason} if reason else None)


def test_usage_is_mapped_and_absent_usage_stays_absent() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 30},
    }
    told = response_of(completion({"content": "x"}, usage=usage), "r")
    assert told["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 30},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": None},
        "total_tokens": 150,
    }
    assert "usage" not in response_of(completion({"content": "x"}), "r")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"reasoning": "hm", "content": "x"}, ["reasoning", "message"], id="reasoning-by-its-other-name"),
        pytest.param({"content": None}, ["message"], id="nothing-is-an-empty-text"),
        pytest.param({"content": None, "reasoning_content": "hm"}, ["reasoning"], id="reasoning-only"),
        pytest.param(
            {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
            ["function_call"],
            id="the-old-function-call",
        ),
    ],
)
def test_messages_of_every_make_are_read(message: dict[str, Any], expected: list[str]) -> None:
    assert [item["type"] for item in output_items(message, None, "r")] == expected


def test_calls_without_a_usable_id_get_one_of_their_own() -> None:
    function = {"name": "f", "arguments": {"a": 1}}
    items = output_items(
        {"tool_calls": [{"id": "x", "function": function}, {"id": "x", "function": function}]}, None, "r"
    )
    assert [item["call_id"] for item in items] == ["x", "call_r_1"]
    assert json.loads(items[0]["arguments"]) == {"a": 1}


def test_log_probabilities_and_token_ids_are_kept() -> None:
    tokens = [{"token": "x", "logprob": -0.1, "bytes": [120], "top_logprobs": []}]
    message = {
        "content": "x",
        "prompt_token_ids": [1],
        "generation_token_ids": [2],
        "generation_log_probs": [-0.1],
    }
    (item,) = output_items(message, {"content": tokens}, "r")
    assert item["content"][0]["logprobs"] == tokens
    assert (item["prompt_token_ids"], item["generation_token_ids"]) == ([1], [2])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param([], "no chat completion", id="list"),
        pytest.param({"choices": []}, "no choices", id="no-choices"),
        pytest.param({"choices": [{"delta": {}}]}, "no choices", id="no-message"),
        pytest.param({"error": {"message": "overloaded"}}, "overloaded", id="error-in-a-200"),
        pytest.param(completion({"tool_calls": [{"id": "x"}]}), "names no function", id="call-without-function"),
    ],
)
def test_answers_that_are_no_completion_are_model_errors(answer: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        response_of(answer, "r")


def test_a_streamed_completion_is_the_completion_that_was_meant() -> None:
    streamed = StreamedCompletion()
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"content": "a"},
        {"content": "b"},
        {"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "f", "arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    wrote = [streamed.add({"id": "cmpl", "model": "m", "choices": [{"delta": delta}]}) for delta in deltas]
    streamed.add({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    streamed.add({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})

    response = response_of(streamed.completion(), "r")
    assert wrote == [False, True, True, True, True, True, True]
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "function_call", "function_call"]
    assert response["output"][2]["arguments"] == '{"a": 1}'
    assert response["usage"]["total_tokens"] == 3
    assert response["id"] == "cmpl"


def test_a_stream_that_breaks_off_is_worth_another_try() -> None:
    streamed = StreamedCompletion()
    streamed.add({"choices": [{"delta": {"content": "half"}}]})
    with pytest.raises(ModelError, match="before the answer was complete") as caught:
        streamed.completion()
    assert caught.value.data["retryable"] is True
