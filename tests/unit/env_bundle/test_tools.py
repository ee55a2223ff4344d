"""Environments with tools: schemas from signatures, errors as observations, rewards from replies."""

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from rollgym.env_bundle.environment import Observation, ResetArguments
from rollgym.env_bundle.tools import ToolEnvironment, ToolError, ToolReply, tool
from unit.env_bundle.playing import call, step


class Counter(ToolEnvironment):
    name, description = "counter", "Counts."

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def reset(self, arguments: ResetArguments) -> Observation:
        self.total = 0
        return Observation()

    @tool
    def add(self, amount: Annotated[int, Field(ge=1, description="How much")], note: str = "") -> int:
        """Add to
        the total."""
        self.total += amount
        return self.total

    @tool
    def cash_in(self) -> ToolReply:
        """End with the total as the reward."""
        return ToolReply({"total": self.total}, reward=self.total, done=True)

    @tool
    def refuse(self) -> None:
        """Always fails."""
        raise ToolError("not today")


async def test_signature_and_docstring_become_the_tools_description() -> None:
    tools = (await step(Counter(), type="list_tools"))["observation"]["tools"]
    assert tools[0] == {
        "name": "add",
        "description": "Add to the total.",
        "input_schema": {
            "type": "object",
            "properties": {
                "amount": {"type": "integer", "minimum": 1, "description": "How much"},
                "note": {"type": "string", "default": ""},
            },
            "required": ["amount"],
            "additionalProperties": False,
        },
    }


async def test_a_plain_value_is_the_result_without_reward() -> None:
    answer = await call(Counter(), "add", amount=3)
    assert answer["observation"] == {"tool_name": "add", "result": 3, "error": None}
    assert (answer["reward"], answer["done"]) == (None, False)


async def test_a_reply_carries_reward_and_end() -> None:
    counter = Counter()
    await call(counter, "add", amount=3)
    answer = await call(counter, "cash_in")
    assert (answer["observation"]["result"], answer["reward"], answer["done"]) == ({"total": 3}, 3, True)


async def test_a_tools_own_error_is_an_observation() -> None:
    error = (await call(Counter(), "refuse"))["observation"]["error"]
    assert error == {"error_type": "execution_error", "message": "not today"}


async def test_every_wrong_argument_is_named_with_what_was_given() -> None:
    error = (await call(Counter(), "add", amount=0, nots="x"))["observation"]["error"]
    assert error["error_type"] == "invalid_args"
    assert "amount" in error["message"]
    assert "nots" in error["message"]
    assert "(got 0)" in error["message"]


@pytest.mark.parametrize("action", [{}, {"type": "call_tool"}, {"type": "other", "tool_name": "add"}], ids=str)
async def test_an_action_that_is_no_call_is_refused(action: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        await step(Counter(), **action)


async def test_the_type_of_a_call_may_be_left_out() -> None:
    assert (await step(Counter(), tool_name="add", arguments={"amount": 1}))["observation"]["result"] == 1


def test_a_reserved_name_is_refused_when_the_class_is_made() -> None:
    def state(self: Any) -> None:
        """Shadows the socket's own."""

    with pytest.raises(TypeError, match="a tool cannot be called state"):
        type("Bad", (ToolEnvironment,), {"state": tool(state)})
