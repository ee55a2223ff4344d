"""A policy of one's own: asks a question of nobody and plays the first tool it is given, three times.

    PYTHONPATH=examples/policies gym eval run --policy my_policy:FirstTool ++policy.options.calls=3 ...

A policy is one object for a whole run; `start` gives one session per rollout, and its `respond` makes one turn: a text,
or tool calls, as Responses items. A policy that holds connections opens them in `__aenter__` instead of inheriting
from OfflinePolicy.
"""

from rollgym.driver.policies import CallClock, ModelTurn, OfflinePolicy, SeedAnswer, TurnRequest
from rollgym.driver.policies.items import assistant_message, function_call
from rollgym.driver.task_view import TaskView


class FirstTool(OfflinePolicy):
    """Calls the first tool without arguments, `calls` times, then stops."""

    name = "first-tool"

    def __init__(self, calls: int = 3) -> None:
        self._calls = calls

    def start(self, task: TaskView, seed: SeedAnswer) -> "_Session":
        return _Session(self._calls)


class _Session:
    def __init__(self, calls: int) -> None:
        self._calls = calls

    async def respond(self, request: TurnRequest) -> ModelTurn:
        clock = CallClock()
        tools = request.tool_definitions()
        name = f"{request.turn_no}"
        if request.turn_no > self._calls or not tools:
            item = assistant_message("That is all.", f"msg_{name}")
        else:
            item = function_call(tools[0]["name"], "{}", f"call_{name}", f"fc_{name}")
        return ModelTurn.of([item], model=FirstTool.name, response_id=f"resp_{name}", clock=clock)
