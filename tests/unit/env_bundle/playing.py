"""Plays environments without a server: one call in, what the wire would carry out."""

import json
from typing import Any

from rollgym.env_bundle.environment import Environment, Observation
from rollgym.env_bundle.environments.gridsim import GridSim
from unit.env_bundle.gridsim_skills import STRATEGIES

Wire = dict[str, Any]
HOURS_AHEAD = {"novice": 0, "competent": 1, "expert": 24}
"""How far each strategy looks: the novice does not even ask."""


async def reset(environment: Environment[Any], **arguments: Any) -> Wire:
    return _on_the_wire(await environment.begin(arguments))


async def step(environment: Environment[Any], **action: Any) -> Wire:
    return _on_the_wire(await environment.act(action))


async def call(environment: Environment[Any], tool: str, **arguments: Any) -> Wire:
    return await step(environment, type="call_tool", tool_name=tool, arguments=arguments)


async def play_day(seed: int, skill: str) -> Wire:
    """The last answer of a day that one of the strategies plays through the tools."""
    grid, strategy = GridSim(), STRATEGIES[skill]
    state = (await reset(grid, seed=seed))["observation"]["state"]
    while True:
        forecast = await _forecast(grid, HOURS_AHEAD[skill])
        answer = await call(grid, "dispatch", **strategy(state, forecast))
        if answer["done"]:
            return answer
        state = answer["observation"]["result"]["state"]


async def _forecast(grid: GridSim, hours: int) -> list[dict[str, Any]]:
    if not hours:
        return []
    result = (await call(grid, "get_forecast", hours=hours))["observation"]["result"]
    forecast: list[dict[str, Any]] = result["forecast"]
    return forecast


def _on_the_wire(observation: Observation) -> Wire:
    wire: Wire = json.loads(observation.to_json())
    return wire
