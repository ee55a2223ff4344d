"""What the model is shown first, what it asked for, and the one Responses object that a rollout amounts to. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, ModelError
from rollgym.driver.encoded import fields_of, object_of
from rollgym.driver.policies.items import ItemHead, input_items, json_array, read_head, user_message
from rollgym.driver.policies.protocol import ModelTurn, SeedAnswer
from rollgym.driver.policies.usage import Usage
from rollgym.driver.task_view import TaskView

_BOOKKEEPING = frozenset({"metadata", "tools", "done", "reward"})
_TEXT_FIELDS = ("text", "prompt", "message")


def first_input(task: TaskView, seed: SeedAnswer) -> list[bytes]:
    """The items that the model sees first: the row's input, then the opening observation as a user message.

    Raises BadRequest (terminal) where the row's input is neither text nor a list of items.
    """
    try:
        items = input_items(jsonx.loads(bytes(task.params["input"])) if "input" in task.params else None)
    except ValueError as error:
        raise BadRequest(f"responses_create_params.{error}", terminal=True) from error
    text = observation_text(seed.observation)
    if text:
        items = [*items, user_message(text)]
    return [jsonx.dumps(item) for item in items]


def observation_text(observation: Any) -> str | None:
    """The opening observation as the model reads it; None where it says nothing.

    A text is itself. Of an object, its text field (`text`, `prompt` or `message`) comes first, then its other fields
    as JSON; bookkeeping (`tools`, `metadata`, `done`, `reward`) and empty fields are left out.
    """
    if isinstance(observation, str):
        return observation.strip() or None
    if not isinstance(observation, dict):
        return None if observation is None else jsonx.dumps(observation).decode()
    said = {
        key: value for key, value in observation.items() if key not in _BOOKKEEPING and value not in (None, "", [], {})
    }
    texts = [said.pop(name) for name in _TEXT_FIELDS if isinstance(said.get(name), str)]
    if said:
        texts.append(jsonx.dumps(said).decode())
    return "\n\n".join(texts) or None


def offered_tools(task: TaskView, seed: SeedAnswer) -> Sequence[bytes]:
    """The row's tools where it names some, else the environment's. Raises BadRequest where they are no list."""
    if "tools" not in task.params:
        return seed.tools
    try:
        tools = msgspec.json.decode(task.params["tools"], type=list[msgspec.Raw] | None)
    except msgspec.DecodeError as error:
        raise BadRequest(f"responses_create_params.tools is no list: {error}", terminal=True) from error
    return tuple(bytes(tool) for tool in tools) if tools else seed.tools


def function_calls(turn: ModelTurn) -> list[ItemHead]:
    """The tool calls of a turn, in order. Raises ModelError where an output item cannot be read."""
    try:
        heads = [read_head(item) for item in turn.output]
    except ValueError as error:
        raise ModelError(f"the model's output cannot be read: {error}") from error
    return [head for head in heads if head.type == "function_call"]


def final_response(last: ModelTurn, output: Sequence[bytes], usage: Usage | None, *, max_steps: bool) -> bytes:
    """The Responses object of the whole rollout: the last answer's, with every turn's items and all counted tokens.

    Where the turns were used up, `status` is incomplete and `metadata` says why.
    """
    response = fields_of(last.response)
    response["output"] = msgspec.Raw(json_array(output))
    response.pop("usage", None)
    if usage is not None:
        response["usage"] = msgspec.Raw(jsonx.dumps(usage.to_responses()))
    if max_steps:
        metadata = jsonx.loads(bytes(response.get("metadata", msgspec.Raw(b"null"))))
        metadata = {**(metadata if isinstance(metadata, dict) else {}), "ng_termination_reason": "max_steps"}
        response["status"] = msgspec.Raw(b'"incomplete"')
        response["metadata"] = msgspec.Raw(jsonx.dumps(metadata))
    return object_of(response)


def with_response(row: bytes, response: bytes) -> bytes:
    """The body for /verify: the task row and the rollout's Responses object."""
    fields = fields_of(row)
    fields["response"] = msgspec.Raw(response)
    return object_of(fields)


def marked_truncated(body: bytes) -> bytes:
    """A verify answer that says that its rollout was cut short."""
    fields = fields_of(body)
    fields["truncated"] = msgspec.Raw(b"true")
    return object_of(fields)
