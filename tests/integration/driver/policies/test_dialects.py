"""What goes over the wire in each dialect, and what comes back: the same turn either way."""

from typing import Any

import pytest

from integration.driver.policies.conversations import (
    CITIES,
    QUESTION,
    WEATHER,
    ask,
    chat_answer,
    chat_chunks,
    responses_answer,
    responses_events,
)
from integration.driver.policies.model_server import KEY, Answer, model_server, settings
from rollgym.common import jsonx
from rollgym.driver.policies import Usage

REPORTED = Usage(100, 30, 50, 10, 150)


def whole(kind: str) -> Answer:
    return Answer(responses_answer() if kind == "openai-responses" else chat_answer())


def streamed(kind: str) -> Answer:
    return Answer(events=responses_events() if kind == "openai-responses" else chat_chunks())


def without_ids(items: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in jsonx.loads(item).items() if key != "id"} for item in items]


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
@pytest.mark.parametrize("stream", [False, True])
async def test_both_dialects_give_the_same_turn_streamed_or_not(kind: str, *, stream: bool) -> None:
    async with model_server(streamed(kind) if stream else whole(kind)) as server:
        turn = await ask(settings(server, kind, stream=stream))
    assert without_ids(turn.output) == [
        {key: value for key, value in item.items() if key != "id"} for item in responses_answer()["output"]
    ]
    assert (turn.finish, turn.usage, turn.model, turn.status_code) == ("completed", REPORTED, "m-2026", 200)
    assert (turn.timing.ttft_s is not None) is stream
    assert turn.timing.duration_s >= (turn.timing.ttft_s or 0)
    assert turn.request == jsonx.dumps(server.requests[0])
    response = jsonx.loads(turn.response)
    assert (response["object"], response["status"]) == ("response", "completed")
    assert [jsonx.dumps(item) for item in response["output"]] == [jsonx.dumps(jsonx.loads(i)) for i in turn.output]


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_a_server_that_does_not_stream_is_understood_all_the_same(kind: str) -> None:
    async with model_server(whole(kind)) as server:
        turn = await ask(settings(server, kind, stream=True))
    assert len(turn.output) == 4
    assert server.requests[0]["stream"] is True


async def test_a_responses_request_is_the_rows_parameters_with_the_conversation() -> None:
    async with model_server(Answer(responses_answer())) as server:
        await ask(
            settings(server, "openai-responses"), temperature=0.5, max_output_tokens=9, input="ignored", stream=True
        )
    assert server.paths == ["/v1/responses"]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["Content-Type"] == "application/json"
    assert server.requests[0] == {
        "temperature": 0.5,
        "max_output_tokens": 9,
        "model": "m",
        "input": [QUESTION],
        "tools": [WEATHER],
    }


async def test_a_chat_request_is_the_same_in_its_own_words() -> None:
    outputs = [{"type": "function_call_output", "call_id": f"call_{city}", "output": city} for city in CITIES]
    items = [QUESTION, *responses_answer()["output"], *outputs]
    async with model_server(Answer(chat_answer())) as server:
        await ask(settings(server, "openai-chat"), items, max_output_tokens=9, instructions="Be brief.")
    message = chat_answer()["choices"][0]["message"]
    function = {key: value for key, value in WEATHER.items() if key != "type"}
    assert server.paths == ["/v1/chat/completions"]
    assert server.requests[0] == {
        "max_completion_tokens": 9,
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": QUESTION["content"]},
            message,
            *({"role": "tool", "tool_call_id": f"call_{city}", "content": city} for city in CITIES),
        ],
        "tools": [{"type": "function", "function": function}],
    }


async def test_a_chat_server_of_the_old_kind_gets_max_tokens() -> None:
    async with model_server(Answer(chat_answer())) as server:
        await ask(settings(server, "openai-chat", max_tokens_field="max_tokens"), max_output_tokens=9)
    assert server.requests[0]["max_tokens"] == 9


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_fields_for_this_server_alone_are_merged_beneath_the_rows_own(kind: str) -> None:
    metadata = {"extra_body": '{"seed": 7, "temperature": 1, "model": "no"}', "run": "a"}
    async with model_server(whole(kind)) as server:
        await ask(settings(server, kind), metadata=metadata, temperature=0.5)
    sent = server.requests[0]
    assert (sent["seed"], sent["temperature"], sent["model"], sent["metadata"]) == (7, 0.5, "m", {"run": "a"})


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_without_tools_nothing_is_said_of_tools(kind: str) -> None:
    async with model_server(whole(kind)) as server:
        await ask(settings(server, kind), tools=())
    assert "tools" not in server.requests[0]


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_absent_usage_stays_absent(kind: str) -> None:
    answer = whole(kind).body
    del answer["usage"]
    async with model_server(Answer(answer)) as server:
        turn = await ask(settings(server, kind))
    assert turn.usage is None
    assert "usage" not in jsonx.loads(turn.response)


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_the_settings_model_wins_over_the_rows(kind: str) -> None:
    async with model_server(whole(kind)) as server:
        await ask(settings(server, kind, model="mine"), model="theirs")
        await ask(settings(server, kind, model=None), model="theirs")
    assert [request["model"] for request in server.requests] == ["mine", "theirs"]


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_lone_surrogates_in_a_text_pass_through(kind: str) -> None:
    answer = jsonx.dumps(whole(kind).body).replace(b"I will look.", rb"half \ud83d a pair")
    async with model_server(Answer(answer)) as server:
        turn = await ask(settings(server, kind))
        await ask(settings(server, kind), [jsonx.loads(item) for item in turn.output])
    assert any(rb"half \ud83d a pair" in item for item in turn.output)
    assert rb"half \ud83d a pair" in jsonx.dumps(server.requests[1])
