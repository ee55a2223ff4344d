"""The agent with the real servers: env-bundle's environments behind the resources server, as processes."""

import asyncio
from typing import Any

import httpx
import pytest

from integration.driver.agent.rollouts import outputs, roll
from integration.driver.servers import Stack
from plain_http import PLAIN
from rollgym.common import jsonx
from rollgym.driver.agent import RolloutResult
from rollgym.driver.task_view import TaskView
from waiting import eventually


@pytest.fixture
def url(stack: Stack) -> str:
    """The URL of resources."""
    return stack.resources.url


def task(env: str, **fields: Any) -> TaskView:
    return TaskView.decode(jsonx.dumps({"responses_create_params": {"input": "play"}, "env": env, **fields}))


async def open_sessions(url: str) -> list[Any]:
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
        sessions: list[Any] = (await client.get(f"{url}/sessions")).json()["sessions"]
        return sessions


async def test_the_scripted_policy_plays_every_bundled_environment(url: str) -> None:
    async with asyncio.timeout(60):
        gridsim = await roll(url, task("gridsim", seed=3, scripted={"skill": "expert"}))
        again = await roll(url, task("gridsim", seed=3, scripted={"skill": "expert"}))
        wordle = await roll(url, task("wordle", seed=1))
        echo = await roll(url, task("echo", seed=1))
    assert await open_sessions(url) == []
    assert (gridsim.turns, gridsim.tool_calls, echo.turns) == (48, 48, 3)
    assert gridsim.reward == again.reward
    assert echo.reward == pytest.approx(1.0)
    assert 0.8 < (gridsim.reward or 0) <= 1
    assert 0.3 < (wordle.reward or 0) <= 1
    assert all(_row_is_whole(result) for result in (gridsim, wordle, echo))


def _row_is_whole(result: RolloutResult) -> bool:
    row = jsonx.loads(result.verify_body)
    return {"responses_create_params", "response", "reward", "mask_sample"} <= row.keys() and not result.mask_sample


@pytest.mark.parametrize("phase", ["seed", "step"])
async def test_a_rollout_cut_off_frees_its_environment(url: str, phase: str) -> None:
    slow = {"reset": {"delay_s": 30}} if phase == "seed" else {}
    row = task("echo", seed=1, scripted={"calls": [{"name": "step", "arguments": {"delay_s": 30}}]}, **slow)

    async def busy() -> bool:
        sessions = await open_sessions(url)
        return bool(sessions) and (phase == "seed" or sessions[0]["state"] != "opening")

    async def free() -> bool:
        return not await open_sessions(url)

    rollout = asyncio.create_task(roll(url, row))
    await eventually(busy, 20)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    await eventually(free, 5)


async def test_what_the_environment_says_of_wrong_arguments_reaches_the_model(url: str) -> None:
    calls = [{"name": "step", "arguments": {"delay_s": "long"}}, {"name": "step", "arguments": {"message": "hi"}}]
    result = await roll(url, task("echo", seed=3, scripted={"calls": calls}))
    wrong, right = outputs(result)
    assert "delay_s" in wrong
    assert "hi" in right
