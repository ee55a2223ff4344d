"""Runs rollouts of listed turns against a server, and keeps what was observed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rollgym.common import jsonx
from rollgym.driver.agent import AgentSettings, RolloutProgress, RolloutResult, run_rollout
from rollgym.driver.policies import Policy, PolicySettings, Usage, create_policy
from rollgym.driver.resources_client import ResourcesClient
from rollgym.driver.task_view import TaskView


def task(*turns: Any, params: dict[str, Any] | None = None, **fields: Any) -> TaskView:
    """A row whose turns the scripted policy replays."""
    row = {
        "responses_create_params": {"input": "play"} if params is None else params,
        "env": "fake",
        "scripted": {"calls": list(turns)},
        "_ng_task_index": 0,
        "_ng_rollout_index": 0,
        **fields,
    }
    return TaskView.decode(jsonx.dumps(row))


def step(**arguments: Any) -> dict[str, Any]:
    return {"name": "step", "arguments": arguments}


@dataclass
class Heard:
    """An observer that remembers."""

    sessions: list[float] = field(default_factory=list)
    models: list[tuple[Usage | None, str | None]] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)

    def session_opened(self, wait_s: float) -> None:
        self.sessions.append(wait_s)

    def model_called(self, duration_s: float, usage: Usage | None, error: str | None) -> None:
        self.models.append((usage, error))

    def tool_called(self, duration_s: float, status: str) -> None:
        self.tools.append(status)


async def roll(
    url: str,
    row: TaskView,
    *,
    policy: Policy | None = None,
    progress: RolloutProgress | None = None,
    observer: Heard | None = None,
    **settings: Any,
) -> RolloutResult:
    """One rollout against the server at `url`."""
    async with ResourcesClient() as resources, policy or create_policy(PolicySettings()) as player:
        return await run_rollout(
            row,
            resources=resources,
            base_url=url,
            policy=player,
            settings=AgentSettings(**settings),
            progress=progress,
            observer=observer,
        )


def outputs(result: RolloutResult) -> Sequence[Any]:
    """What the tools answered, in the order that the model read it."""
    response = jsonx.loads(result.verify_body)["response"]
    return [item["output"] for item in response["output"] if item["type"] == "function_call_output"]
