"""How the scripted policy runs a day of the environment `gridsim`, at three skills.

Mean rewards over the 200 example days: novice 0.31, competent 0.68, expert 0.92.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollgym.driver.policies.protocol import SeedAnswer
from rollgym.driver.policies.scripted.script import Script, ask

STEAM_MAX_MW = 220.0
STEAM_RAMP_MW = 12.0
BATTERY_MW = 60.0
BATTERY_MWH = 240.0
BATTERY_EFFICIENCY = 0.95

State = Mapping[str, Any]
Forecast = Sequence[Mapping[str, float]]
Dispatch = dict[str, float]


def play(seed: SeedAnswer, skill: str) -> Script:
    """Dispatch hour after hour until the day is over."""
    decide, forecast_arguments = _SKILLS[skill]
    opening = seed.observation if isinstance(seed.observation, Mapping) else {}
    state: State = opening.get("state") or (yield from ask("get_state", {}, "hours_left"))
    while state["hours_left"] > 0:
        forecast: Forecast = ()
        if forecast_arguments is not None:
            forecast = (yield from ask("get_forecast", forecast_arguments, "forecast"))["forecast"]
        state = (yield from ask("dispatch", decide(state, forecast), "state"))["state"]
    return "The day is over."


def novice(state: State, forecast: Forecast) -> Dispatch:
    """Follow the load that was: last hour's net demand and a margin, the battery idle."""
    last = state["last_hour"]
    need = (last["net_mw"] if last else state["steam_mw"]) + 12.0
    steam = _within(need, state["steam_range_mw"])
    return {"steam_mw": steam, "peaker_mw": max(0.0, need - steam), "battery_mw": 0.0}


def competent(state: State, forecast: Forecast) -> Dispatch:
    """Meet the coming hour's forecast and a margin: steam first, the peaker for the rest, the battery idle."""
    need = forecast[0]["net_mw"] + 8.0
    steam = _within(need, state["steam_range_mw"])
    return {"steam_mw": steam, "peaker_mw": max(0.0, need - steam), "battery_mw": 0.0}


def expert(state: State, forecast: Forecast) -> Dispatch:
    """Look ahead: bring steam up in time for what is coming, fill the battery from steam, empty it at the peaks."""
    needs = [hour["net_mw"] + 3.0 for hour in forecast]
    now = needs[0]
    wanted = max(min(STEAM_MAX_MW, need) - STEAM_RAMP_MW * lead for lead, need in enumerate(needs))
    wanted = max(wanted, now)
    peaks = sum(min(BATTERY_MW, max(0.0, need - STEAM_MAX_MW)) for need in needs[1:])
    lacking = min(BATTERY_MWH, peaks / BATTERY_EFFICIENCY + 10.0) - state["battery_mwh"]
    if now < STEAM_MAX_MW and lacking > 0:
        wanted = max(wanted, now + min(BATTERY_MW, lacking / BATTERY_EFFICIENCY))
    steam = _within(wanted, state["steam_range_mw"])
    battery = _within(now - steam, state["battery_range_mw"])
    return {"steam_mw": steam, "peaker_mw": max(0.0, now - steam - battery), "battery_mw": battery}


def _within(value: float, bounds: Sequence[float]) -> float:
    return min(bounds[1], max(bounds[0], value))


_SKILLS: Mapping[str, tuple[Callable[[State, Forecast], Dispatch], Mapping[str, int] | None]] = {
    "novice": (novice, None),
    "competent": (competent, {"hours": 1}),
    "expert": (expert, {}),
}
