"""Environments whose steps are tool calls: `@tool` methods, their schemas, and the observations of calling them.

The step actions are OpenEnv's: `{"type": "list_tools"}` and `{"type": "call_tool", "tool_name", "arguments"}`. A tool
that cannot do what it was asked raises `ToolError`: the agent reads it as an observation, the session goes on.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from rollgym.env_bundle.environment import Action, Environment, Observation, Reward

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
RESERVED_NAMES = frozenset({"reset", "step", "state", "close"})
_MARK = "_is_tool"


class ListTools(Action):
    """Ask for the tools; needs no reset."""

    type: Literal["list_tools"]


class CallTool(Action):
    """Call one tool."""

    type: Literal["call_tool"] = "call_tool"
    tool_name: str = Field(description="Name of the tool")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The tool's arguments")


class ToolDescription(BaseModel):
    """One tool as `list_tools` shows it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolFailure(BaseModel):
    """Why a call gave no result; `error_type` is one of OpenEnv's words."""

    error_type: Literal["execution_error", "invalid_args", "tool_not_found"]
    message: str


class ToolList(Observation):
    """What `list_tools` gives."""

    tools: list[ToolDescription]


class ToolObservation(Observation):
    """What `call_tool` gives: a result, or an error."""

    tool_name: str
    result: Any = None
    error: ToolFailure | None = None


class ToolError(Exception):
    """Raised by a tool: the agent reads the message in the observation's `error`."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """A tool's result with a reward, or with the end of the episode. A plain return value means neither."""

    result: Any
    reward: Reward = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A method that agents may call, with the model of its arguments."""

    description: ToolDescription
    arguments: type[BaseModel]
    method: str


def tool(function: FunctionT) -> FunctionT:
    """Mark a method as a tool: its signature becomes the schema, its docstring the description."""
    setattr(function, _MARK, True)
    return function


class ToolEnvironment(Environment[CallTool]):
    """Base of environments with tools. Between tools, `reset` and `state` it behaves as any other."""

    action_type: ClassVar[type[Action]] = CallTool
    observation_type: ClassVar[type[Observation]] = ToolObservation
    tools: ClassVar[dict[str, Tool]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        marked = inspect.getmembers(cls, lambda member: getattr(member, _MARK, False))
        cls.tools = {name: _describe(cls.__name__, name, function) for name, function in marked}

    @property
    def over(self) -> bool:
        """Whether the episode has ended; observations of further calls carry it as `done`."""
        return False

    @classmethod
    def parse_action(cls, data: Any) -> Action:
        listing = isinstance(data, dict) and data.get("type") == "list_tools"
        return ListTools.model_validate(data) if listing else CallTool.model_validate(data)

    def step(self, action: CallTool) -> Observation:
        if isinstance(action, ListTools):
            return ToolList(tools=[each.description for each in self.tools.values()])
        return self.call(action.tool_name, action.arguments)

    def call(self, name: str, arguments: dict[str, Any]) -> ToolObservation:
        """Call a tool; whatever goes wrong in it is an observation with `error`."""
        called = self.tools.get(name)
        if called is None:
            return self._failed(name, "tool_not_found", f"no tool {name!r}; there are {', '.join(self.tools)}")
        try:
            checked = called.arguments.model_validate(arguments)
            reply = getattr(self, called.method)(**dict(checked))
        except ValidationError as error:
            return self._failed(name, "invalid_args", _one_line(error))
        except ToolError as error:
            return self._failed(name, "execution_error", str(error))
        if isinstance(reply, ToolReply):
            return ToolObservation(tool_name=name, result=reply.result, reward=reply.reward, done=reply.done)
        return ToolObservation(tool_name=name, result=reply, done=self.over)

    def _failed(
        self, name: str, kind: Literal["execution_error", "invalid_args", "tool_not_found"], message: str
    ) -> ToolObservation:
        failure = ToolFailure(error_type=kind, message=message)
        return ToolObservation(tool_name=name, error=failure, done=self.over)


def _describe(owner: str, name: str, function: Callable[..., Any]) -> Tool:
    if name in RESERVED_NAMES:
        raise TypeError(f"{owner}: a tool cannot be called {name}")
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fields: dict[str, Any] = {
        each.name: (hints.get(each.name, Any), ... if each.default is each.empty else each.default)
        for each in parameters
    }
    arguments = create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
    schema = _without_titles(arguments.model_json_schema())
    told = " ".join((function.__doc__ or "").split())
    description = ToolDescription(name=name, description=told, input_schema=schema)
    return Tool(description=description, arguments=arguments, method=name)


def _without_titles(schema: Any) -> Any:
    """Pydantic names every field twice; a model that reads the schema needs it once."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))
    }


def _one_line(error: ValidationError) -> str:
    """Pydantic's findings in one line, with the value that was given."""
    found = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        given = "" if item["type"] == "missing" else f" (got {item['input']!r})"
        found.append(f"{where}: {item['msg']}{given[:100]}")
    return "; ".join(found)
