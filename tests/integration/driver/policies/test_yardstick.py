"""`openai`'s own client is the yardstick: the same conversation through it and through ours, the same server, the same
request and the same items."""

from typing import Any

import openai
import pytest
from openai.types.responses import Response

from integration.driver.policies.conversations import (
    QUESTION,
    WEATHER,
    ask,
    chat_answer,
    chat_chunks,
    responses_answer,
    responses_events,
)
from integration.driver.policies.model_server import KEY, Answer, ModelServer, model_server, settings
from rollgym.common import jsonx
from rollgym.driver.policies import ModelTurn
from rollgym.driver.policies.chat_request import chat_messages, chat_tools

FUNCTION = chat_tools([WEATHER])[0]


def client(server: ModelServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.base_url, api_key=KEY, max_retries=0)


def typed(plain: list[dict[str, Any]]) -> Any:
    """Plain dictionaries where the client's signatures want its typed ones."""
    return plain


def items(turn: ModelTurn) -> list[dict[str, Any]]:
    return [jsonx.loads(item) for item in turn.output]


def as_chat_message(message: Any) -> dict[str, Any]:
    """The client's message as one would send it back."""
    dumped: dict[str, Any] = message.model_dump(exclude_none=True)
    return dumped


async def test_responses_the_same_request_and_the_same_items() -> None:
    async with model_server(Answer(responses_answer())) as server, client(server) as theirs:
        answer = await theirs.responses.create(
            model="m", input=typed([QUESTION]), tools=typed([WEATHER]), temperature=0.5
        )
        ours = await ask(settings(server, "openai-responses"), temperature=0.5)
    assert server.requests[0] == server.requests[1]
    assert items(ours) == [item.model_dump(exclude_unset=True) for item in answer.output]
    assert ours.response_id == answer.id
    assert ours.usage is not None
    assert answer.usage is not None
    assert ours.usage.to_responses()["total_tokens"] == answer.usage.total_tokens


async def test_responses_a_second_turn_sends_back_what_the_client_would() -> None:
    async with model_server(Answer(responses_answer())) as server, client(server) as theirs:
        answer = await theirs.responses.create(model="m", input=typed([QUESTION]), tools=typed([WEATHER]))
        first = await ask(settings(server, "openai-responses"))
        output = {"type": "function_call_output", "call_id": "call_Lisbon", "output": "sunny"}
        history = [QUESTION, *(item.model_dump(exclude_unset=True) for item in answer.output), output]
        await theirs.responses.create(model="m", input=typed(history), tools=typed([WEATHER]))
        await ask(settings(server, "openai-responses"), [QUESTION, *items(first), output])
    assert server.requests[2] == server.requests[3]


async def test_responses_streamed_the_same_items() -> None:
    async with model_server(Answer(events=responses_events())) as server, client(server) as theirs:
        async with theirs.responses.stream(model="m", input="x") as stream:
            answer = await stream.get_final_response()
        ours = await ask(settings(server, "openai-responses", stream=True))
    theirs_items = [item.model_dump(exclude_unset=True) for item in answer.output]
    for item in theirs_items:
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    assert items(ours) == theirs_items


async def test_chat_the_same_request_and_the_same_message() -> None:
    async with model_server(Answer(chat_answer())) as server, client(server) as theirs:
        answer = await theirs.chat.completions.create(
            model="m",
            messages=typed(chat_messages([QUESTION])),
            tools=typed([FUNCTION]),
            max_completion_tokens=9,
        )
        ours = await ask(settings(server, "openai-chat"), max_output_tokens=9)
    assert server.requests[0] == server.requests[1]
    assert chat_messages(items(ours)) == [as_chat_message(answer.choices[0].message)]


async def test_chat_streamed_the_same_message() -> None:
    async with model_server(Answer(events=chat_chunks())) as server, client(server) as theirs:
        async with theirs.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}]) as stream:
            answer = await stream.get_final_completion()
        ours = await ask(settings(server, "openai-chat", stream=True))
    (message,) = chat_messages(items(ours))
    expected = answer.choices[0].message
    assert message["content"] == expected.content
    assert [(call["id"], call["function"]["arguments"]) for call in message["tool_calls"]] == [
        (call.id, call.function.arguments) for call in expected.tool_calls or ()
    ]


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_our_objects_are_what_the_client_reads_as_its_own(kind: str) -> None:
    answer = responses_answer() if kind == "openai-responses" else chat_answer()
    async with model_server(Answer(answer)) as server:
        turn = await ask(settings(server, kind))
    response = Response.model_validate(jsonx.loads(turn.response) | {"usage": None})
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.output_text == "I will look."
