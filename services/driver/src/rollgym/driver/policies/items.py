"""Responses items: how the driver writes them, and the few fields that it reads of one.

An item is carried as its JSON bytes. Only what steers the loop is decoded.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from rollgym.common import jsonx


class ItemHead(msgspec.Struct, gc=False):
    """What the agent needs to know of one item. `arguments` is JSON text, as the model wrote it."""

    type: str = "message"
    role: str = ""
    name: str = ""
    call_id: str = ""
    arguments: str = ""


_head_decoder = msgspec.json.Decoder(ItemHead)


def read_head(item: bytes) -> ItemHead:
    """The head of one encoded item. Raises ValueError where it is no item."""
    try:
        return _head_decoder.decode(item)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_head_slowly(item)


def _read_head_slowly(item: bytes) -> ItemHead:
    """For lone surrogates in a text, null fields, and servers that write arguments as an object."""
    fields = jsonx.loads(item)
    if not isinstance(fields, dict):
        raise ValueError(f"an output item is no object: {item[:80]!r}")
    head = {name: fields[name] for name in ("type", "role", "name", "call_id") if isinstance(fields.get(name), str)}
    arguments = fields.get("arguments")
    if arguments is not None:
        head["arguments"] = arguments if isinstance(arguments, str) else jsonx.dumps(arguments).decode()
    return ItemHead(**head)


def user_message(text: str) -> dict[str, Any]:
    """What the environment or a person says to the model."""
    return {"type": "message", "role": "user", "content": text}


def assistant_message(text: str, item_id: str) -> dict[str, Any]:
    """The model's text, as an output item."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def function_call(name: str, arguments: str, call_id: str, item_id: str) -> dict[str, Any]:
    """The model's wish to call a tool, as an output item. `arguments` is JSON text."""
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def function_call_output(call_id: str, output: str) -> dict[str, Any]:
    """What a tool answered, as the model will read it."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def input_items(value: Any) -> list[dict[str, Any]]:
    """The items of a Responses `input`: a text is one user message, nothing is no item.

    Raises ValueError where it is neither text nor a list of objects.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [user_message(value)]
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise ValueError("input must be a text or a list of items")


def json_array(encoded: Sequence[bytes]) -> bytes:
    """A JSON array of values that are JSON already."""
    return b"[" + b",".join(encoded) + b"]"
