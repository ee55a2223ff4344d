"""The chat dialect: `POST <base>/chat/completions`, mapped from and to the Responses form that the agent speaks."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, ModelError
from rollgym.driver.http_client import MAX_ANSWER_BYTES, excerpt
from rollgym.driver.policies.chat_answer import StreamedCompletion, response_of
from rollgym.driver.policies.chat_request import (
    chat_messages,
    chat_params,
    chat_tools,
    instructions_message,
    is_assistant_item,
)
from rollgym.driver.policies.endpoint import ModelEndpoint, read_json_body
from rollgym.driver.policies.event_stream import events
from rollgym.driver.policies.items import json_array
from rollgym.driver.policies.protocol import CallClock, ModelTurn, SeedAnswer, TurnRequest
from rollgym.driver.policies.request_params import RowParams, model_name
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.policies.usage import Usage
from rollgym.driver.task_view import TaskView


class OpenAIChatPolicy(ModelEndpoint):
    """Asks an endpoint that speaks Chat Completions: vLLM, SGLang, llama.cpp, most gateways."""

    name = "openai-chat"

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def start(self, task: TaskView, seed: SeedAnswer) -> "_Session":
        """Begin one rollout. Raises BadRequest where the row has no model, or what chat has no form for."""
        row = RowParams.of(task)
        given = {name: jsonx.loads(bytes(raw)) for name, raw in row.given.items()}
        params = {**row.extra, **chat_params(given, max_tokens_field=self._settings.max_tokens_field)}
        params["model"] = model_name(self._settings, task)
        if self._settings.stream:
            params.update(stream=True, stream_options={"include_usage": True})
        transcript = ChatTranscript(instructions_message(given))
        return _Session(self, params, transcript, streamed=self._settings.stream)


class ChatTranscript:
    """The chat messages of a growing conversation, each converted once and kept as bytes."""

    def __init__(self, first: Sequence[Mapping[str, Any]] = ()) -> None:
        self._messages = [jsonx.dumps(dict(message)) for message in first]
        self._consumed = 0

    def messages(self, items: Sequence[bytes]) -> list[bytes]:
        """All messages, given all items so far (those of the last call, and more appended)."""
        new = [jsonx.loads(item) for item in items[self._consumed :]]
        open_items = sum(1 for _ in itertools.takewhile(is_assistant_item, reversed(new)))
        closed = new[: len(new) - open_items]
        self._messages += _encoded(closed)
        self._consumed += len(closed)
        return self._messages + _encoded(new[len(closed) :])


def _encoded(items: Sequence[Mapping[str, Any]]) -> list[bytes]:
    try:
        return [jsonx.dumps(message) for message in chat_messages(items)]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"an input item is malformed: {error!r}", terminal=True) from error


class _Session:
    def __init__(
        self, endpoint: ModelEndpoint, params: Mapping[str, Any], transcript: ChatTranscript, *, streamed: bool
    ) -> None:
        self._endpoint = endpoint
        self._params = {name: msgspec.Raw(jsonx.dumps(value)) for name, value in params.items()}
        self._transcript = transcript
        self._streamed = streamed

    async def respond(self, request: TurnRequest) -> ModelTurn:
        clock = CallClock()
        body = self._body(request)

        async def read(response: aiohttp.ClientResponse) -> ModelTurn:
            clock.restart()
            streamed = self._streamed and response.content_type.startswith("text/event-stream")
            completion = await (_read_streamed(response, clock) if streamed else _read_whole(response))
            return turn_of(completion, body, clock)

        return await self._endpoint.post("/chat/completions", body, read, request.deadline)

    def _body(self, request: TurnRequest) -> bytes:
        body = dict(self._params)
        body["messages"] = msgspec.Raw(json_array(self._transcript.messages(request.items)))
        if request.tools:
            body["tools"] = msgspec.Raw(jsonx.dumps(chat_tools(request.tool_definitions())))
        else:  # servers refuse both where there is no tool
            body.pop("tool_choice", None)
            body.pop("parallel_tool_calls", None)
        return msgspec.json.encode(body)


async def _read_whole(response: aiohttp.ClientResponse) -> Any:
    raw = await read_json_body(response)
    try:
        return jsonx.loads(raw)
    except ValueError as error:
        raise ModelError(f"the answer is no JSON ({error}): {excerpt(raw)}") from error


async def _read_streamed(response: aiohttp.ClientResponse, clock: CallClock) -> Any:
    streamed = StreamedCompletion()
    async for data in events(response, MAX_ANSWER_BYTES):
        try:
            chunk = jsonx.loads(data)
        except ValueError as error:
            raise ModelError(f"an event of the stream is no JSON: {excerpt(data)}") from error
        if streamed.add(chunk):
            clock.first_token()
    return streamed.completion()


def turn_of(completion: Any, request: bytes | None, clock: CallClock) -> ModelTurn:
    """The turn that a chat completion holds, in the Responses form. Raises ModelError where it is none."""
    response = response_of(completion, uuid4().hex)
    finish_reason = completion["choices"][0].get("finish_reason")
    return ModelTurn(
        response=jsonx.dumps(response),
        output=tuple(jsonx.dumps(item) for item in response["output"]),
        finish="incomplete" if response["status"] == "incomplete" else "completed",
        timing=clock.stop(),
        usage=Usage.from_chat(completion.get("usage")),
        model=response["model"],
        response_id=response["id"],
        dialect="chat",
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        status_code=200,
        request=request,
    )
