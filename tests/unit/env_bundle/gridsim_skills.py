"""The three reference strategies for gridsim, as plain functions from what an agent sees to what it dispatches."""

from typing import Any

STEAM_MAX_MW, STEAM_RAMP_MW, BATTERY_MW, BATTERY_MWH, EFFICIENCY = 220.0, 12.0, 60.0, 240.0, 0.95
View = dict[str, Any]
Forecast = list[dict[str, Any]]


def novice(state: View, _: Forecast) -> dict[str, float]:
    """Last hour's net demand and a margin; battery idle."""
    last = state["last_hour"]
    need = (last["net_mw"] if last else state["steam_mw"]) + 12.0
    steam = _within(need, state["steam_range_mw"])
    return {"steam_mw": steam, "peaker_mw": max(0.0, need - steam), "battery_mw": 0.0}


def competent(state: View, forecast: Forecast) -> dict[str, float]:
    """The coming hour's forecast and a margin: steam first, the peaker for the rest; battery idle."""
    need = forecast[0]["net_mw"] + 8.0
    steam = _within(need, state["steam_range_mw"])
    return {"steam_mw": steam, "peaker_mw": max(0.0, need - steam), "battery_mw": 0.0}


def expert(state: View, forecast: Forecast) -> dict[str, float]:
    """Steam up in time for what is coming, the battery filled from steam and emptied at the peaks."""
    needs = [hour["net_mw"] + 3.0 for hour in forecast]
    now = needs[0]
    wanted = max(now, *(min(STEAM_MAX_MW, need) - STEAM_RAMP_MW * lead for lead, need in enumerate(needs)))
    peaks = sum(min(BATTERY_MW, max(0.0, need - STEAM_MAX_MW)) for need in needs[1:])
    lacking = min(BATTERY_MWH, peaks / EFFICIENCY + 10.0) - state["battery_mwh"]
    if now < STEAM_MAX_MW and lacking > 0:
        wanted = max(wanted, now + min(BATTERY_MW, lacking / EFFICIENCY))
    steam = _within(wanted, state["steam_range_mw"])
    battery = _within(now - steam, state["battery_range_mw"])
    return {"steam_mw": steam, "peaker_mw": max(0.0, now - steam - battery), "battery_mw": battery}


def _within(value: float, bounds: list[float]) -> float:
    return min(bounds[1], max(bounds[0], value))


STRATEGIES = {"novice": novice, "competent": competent, "expert": expert}
