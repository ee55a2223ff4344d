"""The tools that an environment offers a model: what they are called, what they take, and what their answers say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import UnknownTool
from rollgym.resources import frames
from rollgym.resources.arguments import ArgumentCheck
from rollgym.resources.frames import ErrorFrame, Observation

RESERVED = frozenset(
    {"seed_session", "verify", "close_session", "aggregate_metrics", "reverify_mode", "tools", "sessions", "mcp"}
)
STEP_DESCRIPTION = "Take one step in the environment. The answer holds the observation, the reward if any, and done."


@dataclass(frozen=True)
class Answer:
    """What the model reads. `is_json` says whether the text is a JSON document; `is_error`, the tool's own error."""

    text: bytes
    is_json: bool
    is_error: bool = False


class Tool:
    """One tool: its name, description and JSON schema, the check of its arguments, and the frame a call becomes."""

    __slots__ = ("_prefix", "check", "description", "name", "over_mcp", "schema")

    def __init__(self, name: str, description: str, schema: Mapping[str, Any], *, over_mcp: bool) -> None:
        self.name, self.description, self.schema, self.over_mcp = name, description, dict(schema), over_mcp
        self.check = ArgumentCheck(name, self.schema)
        self._prefix = frames.call_tool_prefix(name)

    def frame(self, arguments: bytes) -> bytes:
        """The step that this call is; `arguments`: the text of a JSON object that passed the check."""
        return frames.call_tool_frame(self._prefix, arguments) if self.over_mcp else frames.step_frame(arguments)

    def answer(self, frame: Observation | ErrorFrame) -> Answer:
        """What the model reads of the environment's answer."""
        if isinstance(frame, ErrorFrame):
            error: dict[str, Any] = {"error": frame.message or frame.code}
            if frame.errors is not None:
                error["errors"] = frame.errors
            return Answer(jsonx.dumps(error), is_json=True, is_error=True)
        return tool_answer(frame.observation) if self.over_mcp else step_answer(frame)

    def as_function(self) -> dict[str, Any]:
        """The tool as OpenAI's Responses API takes it."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.schema,
            "strict": False,
        }


class ToolSet:
    """The tools of one environment."""

    __slots__ = ("_by_name", "functions_json")

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._by_name = {tool.name: tool for tool in tools}
        self.functions_json = jsonx.dumps([tool.as_function() for tool in self._by_name.values()])

    def __iter__(self) -> Any:
        return iter(self._by_name.values())

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def named(self, name: str) -> Tool:
        """The tool called `name`. Raises UnknownTool, naming those that exist."""
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(self._by_name) or "none"
            raise UnknownTool(f"no tool {name!r}; this environment has: {known}", tools=self.names) from None


def step_tool(schema: Mapping[str, Any] | None) -> Tool:
    """The one tool of an environment without tools: `step`, which takes its action, or any object."""
    return Tool("step", STEP_DESCRIPTION, schema or {"type": "object", "additionalProperties": True}, over_mcp=False)


def step_answer(frame: Observation) -> Answer:
    """A plain environment's answer as JSON: the observation, the reward where there is one, done."""
    reward = b"" if frame.reward in (None, b"null") else b',"reward":' + (frame.reward or b"")
    done = b"true" if frame.done else b"false"
    return Answer(b'{"observation":' + frame.observation + reward + b',"done":' + done + b"}", is_json=True)


class _CallToolObservation(msgspec.Struct):
    result: Any = None
    error: Any = None


_call_tool = msgspec.json.Decoder(_CallToolObservation)


def tool_answer(observation: bytes) -> Answer:
    """What the model reads of a tool's answer over MCP: the text of its content, or its result as JSON."""
    try:
        seen = _call_tool.decode(observation)
    except msgspec.DecodeError:
        return Answer(observation, is_json=True)
    if seen.error is not None:
        told = seen.error.get("message", seen.error) if isinstance(seen.error, dict) else seen.error
        return Answer(jsonx.dumps({"error": told}), is_json=True, is_error=True)
    if seen.result is None:
        return Answer(observation, is_json=True)
    result = seen.result
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return _text(result) if isinstance(result, str) else Answer(jsonx.dumps(result), is_json=True)
    text = _content_text(result)
    if result.get("is_error") or result.get("isError"):
        return Answer(jsonx.dumps({"error": text}), is_json=True, is_error=True)
    return _text(text)


def _content_text(result: dict[str, Any]) -> str:
    """The text blocks of an MCP result; other blocks, and structured content that has no text, as JSON."""
    blocks = [
        block["text"] if isinstance(block, dict) and isinstance(block.get("text"), str) else json.dumps(block)
        for block in result["content"]
    ]
    if blocks:
        return "\n".join(blocks)
    structured = result.get("structured_content", result.get("structuredContent"))
    return "" if structured is None else json.dumps(structured)


def _text(text: str) -> Answer:
    encoded = text.encode("utf-8", "backslashreplace")
    return Answer(encoded, is_json=_is_json(encoded))


def _is_json(text: bytes) -> bool:
    if text[:1] not in (b"{", b"["):
        return False
    try:
        jsonx.loads(text)
    except ValueError:
        return False
    return True
