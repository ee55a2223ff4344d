"""The environment `gridsim`: the agent's view of the grid, its three tools, and the course of the day.

One episode is one day of 24 hourly decisions. The reward comes with the last one (see `scoring`); before it, rewards
are null. Reading state or forecast costs no time; only `dispatch` moves the clock.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from pydantic import Field

from rollgym.env_bundle.environment import NotReset, Observation, ResetArguments, State
from rollgym.env_bundle.environments.gridsim.day import HOURS, Day, make_day
from rollgym.env_bundle.environments.gridsim.grid import (
    PEAKER_MAX_MW,
    Dispatch,
    Outcome,
    Plants,
    run_hour,
    stored_energy_credit,
)
from rollgym.env_bundle.environments.gridsim.scoring import baseline_cost, bound_cost, reward, starting_plants
from rollgym.env_bundle.tools import ToolEnvironment, ToolError, ToolObservation, ToolReply, tool

Megawatts = Annotated[float, Field(allow_inf_nan=False)]


class GridReset(Observation):
    """What the agent sees at midnight."""

    message: str
    season: str
    state: dict[str, Any]


class GridState(State):
    """The episode's state: the agent's view, and the seed that it does not see."""

    seed: int | None = None
    season: str | None = None
    hour: int = 0
    cost_so_far: float = 0.0


class GridSim(ToolEnvironment):
    """One day of a small power grid."""

    name: ClassVar[str] = "gridsim"
    description: ClassVar[str] = (
        "One day of a small power grid: 24 hourly decisions for a steam unit, a peaker and a battery, made before "
        "the hour's demand, wind and sun are known. Reward 0 to 1 at the end of the day."
    )
    state_type: ClassVar[type[State]] = GridState

    def __init__(self) -> None:
        super().__init__()
        self._day: Day | None = None
        self._plants = Plants(steam_mw=0.0)
        self._outcomes: list[Outcome] = []

    def reset(self, arguments: ResetArguments) -> Observation:
        self._day = make_day(arguments.seed_or_drawn())
        self._plants = starting_plants(self._day)
        self._outcomes = []
        message = f"It is midnight, in {self._day.season}. Hour 0 waits for its dispatch."
        return GridReset(message=message, season=self._day.season, state=self._view())

    def call(self, name: str, arguments: dict[str, Any]) -> ToolObservation:
        if self._day is None:
            raise NotReset
        return super().call(name, arguments)

    @property
    def over(self) -> bool:
        return len(self._outcomes) == HOURS

    @tool
    def get_state(self) -> dict[str, Any]:
        """Read the grid: the hour that waits for its dispatch, what each plant can reach in it, what the last hour
        brought, and the cost so far. Costs no time."""
        return self._view()

    @tool
    def get_forecast(
        self, hours: Annotated[int, Field(ge=1, le=HOURS, description="How many hours, from the coming one on")] = HOURS
    ) -> dict[str, Any]:
        """Read the forecast of demand, wind, sun and net demand (demand less wind and sun) from the coming hour on, MW.
        The nearer the hour, the smaller the error. Costs no time."""
        day, now = self._the_day(), len(self._outcomes)
        if self.over:
            raise ToolError("the day is over: nothing is left to forecast")
        ahead = range(now, min(HOURS, now + hours))
        return {"forecast": [{"hour": hour, **_powers(day.forecast(hour, seen_from=now))} for hour in ahead]}

    @tool
    def dispatch(
        self,
        steam_mw: Annotated[Megawatts, Field(description="Steam unit's output, MW")],
        peaker_mw: Annotated[Megawatts, Field(description="Peaker's output, MW")],
        battery_mw: Annotated[Megawatts, Field(description="Battery, MW: above 0 discharges, below 0 charges")] = 0.0,
    ) -> ToolReply:
        """Set the plants for the coming hour and live through it. What a plant cannot reach is moved to the nearest
        that it can, and listed in `adjusted`. Answers the state after the hour; `last_hour` in it tells how it went."""
        day = self._the_day()
        if self.over:
            raise ToolError("the day is over: all 24 hours are dispatched")
        wanted = Dispatch(steam_mw, peaker_mw, battery_mw)
        feasible = wanted.feasible(self._plants)
        self._plants, outcome = run_hour(self._plants, feasible, day.hours[len(self._outcomes)])
        self._outcomes.append(outcome)
        answer = {"state": self._view(), "adjusted": _adjusted(wanted, feasible)}
        if not self.over:
            return ToolReply(answer)
        final = self._final(day)
        return ToolReply({**answer, "final": final}, reward=final["reward"], done=True)

    def state(self) -> State:
        return GridState(
            episode_id=self.episode_id,
            step_count=self.step_count,
            seed=self._day.seed if self._day else None,
            season=self._day.season if self._day else None,
            hour=len(self._outcomes),
            cost_so_far=self._cost_so_far(),
        )

    def _the_day(self) -> Day:
        if self._day is None:
            raise NotReset
        return self._day

    def _view(self) -> dict[str, Any]:
        hour = len(self._outcomes)
        return {
            "hour": hour,
            "hours_left": HOURS - hour,
            "steam_mw": self._plants.steam_mw,
            "steam_range_mw": list(self._plants.steam_range_mw),
            "peaker_range_mw": [0.0, PEAKER_MAX_MW],
            "battery_mwh": self._plants.battery_mwh,
            "battery_range_mw": list(self._plants.battery_range_mw),
            "cost_so_far": self._cost_so_far(),
            "last_hour": self._last_hour() if self._outcomes else None,
        }

    def _last_hour(self) -> dict[str, Any]:
        outcome = self._outcomes[-1]
        return {
            "hour": len(self._outcomes) - 1,
            **_powers(outcome.actual),
            "steam_mw": outcome.dispatch.steam_mw,
            "peaker_mw": outcome.dispatch.peaker_mw,
            "battery_mw": outcome.dispatch.battery_mw,
            "unserved_mwh": outcome.unserved_mwh,
            "curtailed_mwh": outcome.curtailed_mwh,
            "cost": outcome.cost,
        }

    def _cost_so_far(self) -> float:
        return round(math.fsum(outcome.cost for outcome in self._outcomes), 1)

    def _final(self, day: Day) -> dict[str, float]:
        cost = round(self._cost_so_far() - stored_energy_credit(self._plants.battery_mwh), 1)
        baseline, bound = baseline_cost(day), bound_cost(day)
        return {
            "cost": cost,
            "baseline_cost": baseline,
            "bound_cost": bound,
            "unserved_mwh": round(math.fsum(outcome.unserved_mwh for outcome in self._outcomes), 1),
            "reward": reward(cost, baseline, bound),
        }


def _powers(hour: Any) -> dict[str, float]:
    return {
        "demand_mw": hour.demand_mw,
        "wind_mw": hour.wind_mw,
        "solar_mw": hour.solar_mw,
        "net_mw": hour.net_mw,
    }


def _adjusted(wanted: Dispatch, feasible: Dispatch) -> list[str]:
    """Which set points were out of reach, in words; rounding to a tenth is none."""
    found = []
    for name in ("steam_mw", "peaker_mw", "battery_mw"):
        asked, given = getattr(wanted, name), getattr(feasible, name)
        if abs(asked - given) > 0.1:
            found.append(f"{name}: {asked:g} is out of reach, ran at {given:g}")
    return found
