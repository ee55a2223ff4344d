"""The environment gridsim through its tools: the course of a day, its errors, its reward, and what skill is worth."""

import statistics
from typing import Any

import pytest

from rollgym.env_bundle.environment import NotReset
from rollgym.env_bundle.environments.gridsim import GridSim
from unit.env_bundle.playing import call, play_day, reset, step

HOURS = 24


@pytest.fixture
def grid() -> GridSim:
    return GridSim()


async def finish(grid: GridSim) -> dict[str, Any]:
    for _ in range(HOURS - 1):
        answer = await call(grid, "dispatch", steam_mw=150, peaker_mw=100)
        assert (answer["reward"], answer["done"]) == (None, False)
    return await call(grid, "dispatch", steam_mw=150, peaker_mw=100)


async def test_tools_are_listed_before_any_reset(grid: GridSim) -> None:
    tools = (await step(grid, type="list_tools"))["observation"]["tools"]
    assert {tool["name"]: sorted(tool["input_schema"]["properties"]) for tool in tools} == {
        "dispatch": ["battery_mw", "peaker_mw", "steam_mw"],
        "get_forecast": ["hours"],
        "get_state": [],
    }
    assert all(tool["description"] for tool in tools)


async def test_a_call_before_reset_is_refused(grid: GridSim) -> None:
    with pytest.raises(NotReset):
        await call(grid, "get_state")


async def test_reset_shows_midnight(grid: GridSim) -> None:
    answer = await reset(grid, seed=3)
    state = answer["observation"]["state"]
    assert (state["hour"], state["hours_left"], state["last_hour"], state["cost_so_far"]) == (0, HOURS, None, 0.0)
    assert (answer["reward"], answer["done"]) == (None, False)


async def test_the_same_seed_gives_the_same_episode_and_another_one_does_not(grid: GridSim) -> None:
    first, again, other = [await reset(grid, seed=seed) for seed in (5, 5, 6)]
    assert first == again != other


async def test_reset_without_a_seed_draws_one_and_the_state_tells_it(grid: GridSim) -> None:
    await reset(grid)
    assert isinstance(grid.state().model_dump()["seed"], int)


async def test_reading_costs_no_time_and_dispatch_one_hour(grid: GridSim) -> None:
    await reset(grid, seed=1)
    await call(grid, "get_state")
    await call(grid, "get_forecast")
    answer = await call(grid, "dispatch", steam_mw=120, peaker_mw=30, battery_mw=-5)
    state = answer["observation"]["result"]["state"]
    assert state["hour"] == 1
    assert state["last_hour"]["hour"] == 0
    assert state["last_hour"]["cost"] == state["cost_so_far"]
    assert (await call(grid, "get_state"))["observation"]["result"] == state


async def test_the_forecast_begins_with_the_coming_hour_and_ends_at_midnight(grid: GridSim) -> None:
    await reset(grid, seed=1)
    await call(grid, "dispatch", steam_mw=120, peaker_mw=30)
    hours = [hour["hour"] for hour in (await call(grid, "get_forecast"))["observation"]["result"]["forecast"]]
    assert hours == list(range(1, HOURS))
    short = (await call(grid, "get_forecast", hours=2))["observation"]["result"]["forecast"]
    assert [hour["hour"] for hour in short] == [1, 2]


async def test_set_points_out_of_reach_are_adjusted_and_said(grid: GridSim) -> None:
    await reset(grid, seed=1)
    result = (await call(grid, "dispatch", steam_mw=1000, peaker_mw=-3))["observation"]["result"]
    reached = result["state"]["last_hour"]
    assert result["adjusted"] == [
        f"steam_mw: 1000 is out of reach, ran at {reached['steam_mw']:g}",
        "peaker_mw: -3 is out of reach, ran at 0",
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "word"),
    [
        pytest.param("dispatch", {"peaker_mw": 1}, "invalid_args", "steam_mw", id="missing"),
        pytest.param("dispatch", {"steam_mw": "much", "peaker_mw": 1}, "invalid_args", "much", id="text"),
        pytest.param("dispatch", {"steam_mw": float("nan"), "peaker_mw": 1}, "invalid_args", "finite", id="nan"),
        pytest.param("dispatch", {"steam_mw": 1, "peaker_mw": 1, "x": 1}, "invalid_args", "x", id="unknown-argument"),
        pytest.param("get_forecast", {"hours": 0}, "invalid_args", "hours", id="no-hours"),
        pytest.param("shut_down", {}, "tool_not_found", "dispatch", id="unknown-tool"),
    ],
)
async def test_a_bad_call_is_an_observation_with_an_error_and_costs_no_time(
    grid: GridSim, tool: str, arguments: dict[str, Any], kind: str, word: str
) -> None:
    await reset(grid, seed=1)
    answer = await call(grid, tool, **arguments)
    error = answer["observation"]["error"]
    assert error["error_type"] == kind
    assert word in error["message"]
    assert (answer["observation"]["result"], answer["done"]) == (None, False)
    assert (await call(grid, "get_state"))["observation"]["result"]["hour"] == 0


async def test_the_last_hour_ends_the_day_with_its_reward(grid: GridSim) -> None:
    await reset(grid, seed=2)
    answer = await finish(grid)
    final = answer["observation"]["result"]["final"]
    expected = (final["baseline_cost"] - final["cost"]) / (final["baseline_cost"] - final["bound_cost"])
    assert answer["done"] is True
    assert answer["reward"] == final["reward"] == pytest.approx(min(1.0, max(0.0, expected)), abs=1e-6)


async def test_after_the_end_dispatch_and_forecast_are_errors_and_add_no_reward(grid: GridSim) -> None:
    await reset(grid, seed=2)
    await finish(grid)
    for tool, arguments in (("dispatch", {"steam_mw": 1, "peaker_mw": 1}), ("get_forecast", {})):
        answer = await call(grid, tool, **arguments)
        assert answer["observation"]["error"]["error_type"] == "execution_error"
        assert (answer["reward"], answer["done"]) == (None, True)
    assert (await call(grid, "get_state"))["observation"]["error"] is None


async def test_a_reset_starts_the_next_day_from_zero(grid: GridSim) -> None:
    fresh = await reset(grid, seed=2)
    await finish(grid)
    assert await reset(grid, seed=2) == fresh
    assert (await finish(grid))["done"] is True


async def test_the_state_counts_steps_and_hours(grid: GridSim) -> None:
    await reset(grid, seed=2, episode_id="mine")
    await call(grid, "get_state")
    await call(grid, "dispatch", steam_mw=100, peaker_mw=100)
    state = grid.state().model_dump()
    assert (state["episode_id"], state["step_count"], state["hour"], state["seed"]) == ("mine", 2, 1, 2)


async def test_more_skill_earns_at_least_a_tenth_more() -> None:
    means = {}
    for skill in ("novice", "competent", "expert"):
        rewards = [(await play_day(seed, skill))["reward"] for seed in range(12)]
        assert all(0.0 <= reward <= 1.0 for reward in rewards)
        means[skill] = statistics.mean(rewards)
    assert means["novice"] + 0.1 <= means["competent"]
    assert means["competent"] + 0.1 <= means["expert"]
