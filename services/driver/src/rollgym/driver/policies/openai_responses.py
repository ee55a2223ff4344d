"""The Responses dialect: `POST <base>/responses`. Items pass both ways as the bytes they are."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import ModelError
from rollgym.driver.encoded import object_of, raw_bytes, struct_of
from rollgym.driver.http_client import MAX_ANSWER_BYTES, excerpt
from rollgym.driver.policies.endpoint import ModelEndpoint, read_json_body
from rollgym.driver.policies.event_stream import events
from rollgym.driver.policies.items import json_array
from rollgym.driver.policies.protocol import CallClock, ModelTurn, SeedAnswer, TurnRequest
from rollgym.driver.policies.request_params import RowParams, model_name
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.policies.usage import Usage
from rollgym.driver.task_view import TaskView

_FINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _Answer(msgspec.Struct, gc=False):
    """What is read of a Responses object; the rest stays bytes."""

    output: list[msgspec.Raw] | None = None
    id: str | None = None
    model: str | None = None
    status: str | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    response: msgspec.Raw = msgspec.Raw()
    error: Any = None


_answer_decoder = msgspec.json.Decoder(_Answer)
_event_decoder = msgspec.json.Decoder(_Event)


class OpenAIResponsesPolicy(ModelEndpoint):
    """Asks an endpoint that speaks the Responses API."""

    name = "openai-responses"

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def start(self, task: TaskView, seed: SeedAnswer) -> "_Session":
        """Begin one rollout. Raises BadRequest where neither the settings nor the row name a model."""
        row = RowParams.of(task)
        params = {name: msgspec.Raw(jsonx.dumps(value)) for name, value in row.extra.items()}
        params.update(row.given)
        params["model"] = msgspec.Raw(jsonx.dumps(model_name(self._settings, task)))
        if self._settings.stream:
            params["stream"] = msgspec.Raw(b"true")
        return _Session(self, params, streamed=self._settings.stream)


class _Session:
    def __init__(self, endpoint: ModelEndpoint, params: Mapping[str, msgspec.Raw], *, streamed: bool) -> None:
        self._endpoint = endpoint
        self._params = params
        self._read = _read_streamed if streamed else _read_whole

    async def respond(self, request: TurnRequest) -> ModelTurn:
        clock = CallClock()
        body = request_body(self._params, request)

        async def read(response: aiohttp.ClientResponse) -> ModelTurn:
            clock.restart()
            return turn_of(await self._read(response, clock), body, clock)

        return await self._endpoint.post("/responses", body, read, request.deadline)


def request_body(params: Mapping[str, msgspec.Raw], request: TurnRequest) -> bytes:
    """The JSON of one request: the row's parameters, the conversation, the tools."""
    body = dict(params)
    body["input"] = msgspec.Raw(json_array(request.items))
    if request.tools:
        body["tools"] = msgspec.Raw(json_array(request.tools))
    return object_of(body)


async def _read_whole(response: aiohttp.ClientResponse, clock: CallClock) -> bytes:
    return await read_json_body(response)


async def _read_streamed(response: aiohttp.ClientResponse, clock: CallClock) -> bytes:
    """The final Responses object of a stream. A server that does not stream answers with the whole at once."""
    if not response.content_type.startswith("text/event-stream"):
        return await _read_whole(response, clock)
    async for data in events(response, MAX_ANSWER_BYTES):
        try:
            event = struct_of(data, _event_decoder)
        except ValueError as error:
            raise ModelError(f"an event of the stream is no JSON: {excerpt(data)}") from error
        if event.type == "error" or (event.error is not None and not event.type):
            raise ModelError(f"the stream reports an error: {excerpt(data)}", retryable=True)
        if event.type.endswith(".delta"):
            clock.first_token()
        if event.type in _FINAL_EVENTS:
            clock.first_token()
            return raw_bytes(event.response)
    raise ModelError("the stream ended before the answer was complete", retryable=True)


def turn_of(raw: bytes, request: bytes | None, clock: CallClock) -> ModelTurn:
    """The turn that a Responses object holds. Raises ModelError where `raw` is none, or says that it failed."""
    answer = _decode(raw)
    if answer.error is not None or answer.status == "failed":
        raise ModelError(f"the model failed: {excerpt(jsonx.dumps(answer.error))}", retryable=True)
    if answer.output is None:
        raise ModelError(f"the answer is no Responses object (it has no output): {excerpt(raw)}")
    incomplete = answer.status == "incomplete" or answer.incomplete_details is not None
    details = answer.incomplete_details
    reason = details.get("reason") if isinstance(details, Mapping) else None
    return ModelTurn(
        response=raw,
        output=tuple(raw_bytes(item) for item in answer.output),
        finish="incomplete" if incomplete else "completed",
        timing=clock.stop(),
        usage=Usage.from_responses(answer.usage),
        model=answer.model,
        response_id=answer.id,
        dialect="responses",
        finish_reason=reason if isinstance(reason, str) else answer.status,
        status_code=200,
        request=request,
    )


def _decode(raw: bytes) -> _Answer:
    try:
        return struct_of(raw, _answer_decoder)
    except ValueError as error:
        raise ModelError(f"the answer is no Responses object ({error}): {excerpt(raw)}") from error
