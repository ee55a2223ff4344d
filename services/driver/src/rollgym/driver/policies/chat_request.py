"""Responses → Chat Completions: items become messages, tools and parameters take their chat names.

Pure. Nothing is dropped in silence: what chat has no word for is refused, naming it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rollgym.common.errors import BadRequest

_HARMLESS = {"truncation": "disabled", "background": False}
_NO_CHAT_FORM = (
    "background",
    "context_management",
    "conversation",
    "include",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "truncation",
)
_ASSISTANT_ITEMS = ("reasoning", "function_call")


def is_assistant_item(item: Mapping[str, Any]) -> bool:
    """Whether this item is part of an assistant message (its text, reasoning, or a tool call)."""
    kind = item.get("type") or "message"
    return kind in _ASSISTANT_ITEMS or (kind == "message" and item.get("role") == "assistant")


def chat_messages(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The chat messages of a conversation. Neighbouring assistant items are one assistant message.

    Raises BadRequest (terminal) for an item that chat has no form for.
    """
    messages: list[dict[str, Any]] = []
    group: list[Mapping[str, Any]] = []
    for item in items:
        if is_assistant_item(item):
            group.append(item)
            continue
        if group:
            messages.append(_assistant_message(group))
            group = []
        messages.append(_other_message(item))
    if group:
        messages.append(_assistant_message(group))
    return messages


def _assistant_message(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    texts: list[str] = []
    refusals: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in group:
        kind = item.get("type") or "message"
        if kind == "reasoning":
            reasoning += [part["text"] for key in ("summary", "content") for part in item.get(key) or ()]
        elif kind == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            calls.append({"id": item["call_id"], "type": "function", "function": function})
        else:
            _read_assistant_content(item.get("content"), texts, refusals)
    message: dict[str, Any] = {"role": "assistant", "content": _joined_texts(texts)}
    if refusals:
        message["refusal"] = "\n".join(refusals)
    if reasoning:
        message["reasoning_content"] = "\n".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    return message


def _read_assistant_content(content: Any, texts: list[str], refusals: list[str]) -> None:
    if isinstance(content, str):
        texts.append(content)
        return
    for part in content or ():
        kind = part.get("type")
        if kind in ("output_text", "input_text", "text"):
            texts.append(part["text"])
        elif kind == "refusal":
            refusals.append(part["refusal"])
        else:
            raise _no_chat_form(f"content part {kind!r} of an assistant message")


def _joined_texts(texts: list[str]) -> str | list[dict[str, Any]] | None:
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]


def _other_message(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type") or "message"
    if kind == "function_call_output":
        return {"role": "tool", "tool_call_id": item["call_id"], "content": _content(item.get("output"))}
    if kind == "message" and item.get("role") in ("user", "system", "developer"):
        message = {"role": item["role"], "content": _content(item.get("content"))}
        if isinstance(item.get("name"), str):
            message["name"] = item["name"]
        return message
    raise _no_chat_form(f"item {kind!r}" + (f" of role {item.get('role')!r}" if kind == "message" else ""))


def _content(content: Any) -> str | list[dict[str, Any]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return [_content_part(part) for part in content]


def _content_part(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and part.get("image_url"):
        image = {"url": part["image_url"]}
        if part.get("detail"):
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "input_file" and not part.get("file_url"):
        file = {key: part[key] for key in ("file_data", "file_id", "filename") if part.get(key)}
        return {"type": "file", "file": file}
    if kind in ("input_audio", "image_url", "file"):
        return dict(part)
    raise _no_chat_form(f"content part {kind!r}")


def chat_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The function tools in chat's form. Raises BadRequest for tools that the model's provider would run."""
    converted = []
    for tool in tools:
        if tool.get("type") != "function":
            raise _no_chat_form(f"tool {tool.get('type')!r}")
        fields = {key: value for key, value in tool.items() if key != "type" and value is not None}
        converted.append({"type": "function", "function": fields})
    return converted


def chat_params(params: Mapping[str, Any], *, max_tokens_field: str) -> dict[str, Any]:
    """The parameters beside messages and tools, under their chat names; unknown ones pass as they are.

    `instructions` is not among them: it is the first message (`instructions_message`).
    """
    given = {key: value for key, value in params.items() if value is not None and key != "instructions"}
    for name in _NO_CHAT_FORM:
        if name in given and given.pop(name) != _HARMLESS.get(name, object()):
            raise _no_chat_form(f"responses_create_params.{name}")
    converted: dict[str, Any] = {}
    for name, value in given.items():
        if name == "max_output_tokens":
            converted[max_tokens_field] = value
        elif name == "reasoning":
            converted.update(_reasoning(value))
        elif name == "text":
            converted.update(_text(value))
        elif name == "tool_choice":
            converted["tool_choice"] = _tool_choice(value)
        elif name == "top_logprobs":
            converted.update(logprobs=True, top_logprobs=value)
        else:
            converted[name] = value
    return converted


def instructions_message(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`instructions` as the first message, or nothing."""
    instructions = params.get("instructions")
    return [{"role": "system", "content": instructions}] if instructions else []


def _reasoning(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(key for key, value in reasoning.items() if key != "effort" and value is not None)
    if unknown:
        raise _no_chat_form(f"responses_create_params.reasoning.{unknown[0]}")
    return {"reasoning_effort": reasoning["effort"]} if reasoning.get("effort") is not None else {}


def _text(text: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    if text.get("verbosity") is not None:
        converted["verbosity"] = text["verbosity"]
    shape = text.get("format") or {"type": "text"}
    if shape["type"] == "json_schema":
        schema = {key: value for key, value in shape.items() if key != "type" and value is not None}
        converted["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif shape["type"] != "text":
        converted["response_format"] = dict(shape)
    return converted


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return choice
    kind = choice.get("type")
    if kind == "function":
        return {"type": "function", "function": {"name": choice["name"]}}
    if kind == "allowed_tools":
        tools = [_tool_choice(tool) for tool in choice["tools"]]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice["mode"], "tools": tools}}
    raise _no_chat_form(f"tool_choice {kind!r}")


def _no_chat_form(what: str) -> BadRequest:
    return BadRequest(f"{what} has no form in Chat Completions: use policy openai-responses for it", terminal=True)
