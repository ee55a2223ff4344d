"""The reward of a day: its cost between a documented baseline and a bound that no policy can pass.

    reward = (baseline - cost) / (baseline - bound), held within [0, 1]

*cost* is the sum over the 24 hours (fuel of both plants, penalty for unserved demand) less the credit for stored
energy.

*baseline* is the cost of an operator who leaves the steam unit where midnight found it, lets the peaker make up what
the midnight forecast lacks, and never touches the battery.

*bound* is the cost of the same day for an operator who knows it in advance and whose plants are better than ours: the
steam unit has neither ramp nor minimum, the battery no losses, the peaker no upper end. With two prices and a battery
without losses the best plan is greedy: charge from steam whenever it has room, replace the peaker whenever the battery
holds something. Each relaxation can only lower the cost, so no dispatch of the real plants costs less.
"""

from __future__ import annotations

import math

from rollgym.env_bundle.environments.gridsim.day import HOURS, Day
from rollgym.env_bundle.environments.gridsim.grid import (
    BATTERY_MW,
    BATTERY_MWH,
    PEAKER_COST,
    START_BATTERY_MWH,
    STEAM_COST,
    STEAM_MAX_MW,
    STEAM_MIN_MW,
    Dispatch,
    Plants,
    run_hour,
)


def starting_plants(day: Day) -> Plants:
    """Midnight: the steam unit stands where the first hour's forecast wants it."""
    wanted = day.forecast(0, seen_from=0).net_mw
    return Plants(steam_mw=round(min(STEAM_MAX_MW, max(STEAM_MIN_MW, wanted)), 1))


def baseline_cost(day: Day) -> float:
    """Cost of the operator who plans once, at midnight."""
    plants, costs = starting_plants(day), []
    for hour in range(HOURS):
        lacking = day.forecast(hour, seen_from=0).net_mw - plants.steam_mw
        dispatch = Dispatch(plants.steam_mw, lacking, 0.0).feasible(plants)
        plants, outcome = run_hour(plants, dispatch, day.hours[hour])
        costs.append(outcome.cost)
    return round(math.fsum(costs), 1)


def bound_cost(day: Day) -> float:
    """Cost that no dispatch of the day can go below."""
    stored, costs = START_BATTERY_MWH, []
    for hour in day.hours:
        room = STEAM_MAX_MW - max(0.0, hour.net_mw)
        if room >= 0:
            surplus = min(BATTERY_MW, max(0.0, -hour.net_mw))
            charged = min(BATTERY_MW, room, BATTERY_MWH - stored)
            stored += charged
            costs.append(STEAM_COST * (max(0.0, hour.net_mw) + charged - surplus))
        else:
            replaced = min(BATTERY_MW, -room, stored)
            stored -= replaced
            costs.append(STEAM_COST * STEAM_MAX_MW + PEAKER_COST * (-room - replaced))
    costs.append(-STEAM_COST * (stored - START_BATTERY_MWH))
    return round(math.fsum(costs), 1)


def reward(cost: float, baseline: float, bound: float) -> float:
    """Share of the way from the baseline's cost to the bound's, in [0, 1]."""
    if baseline <= bound:
        return 1.0 if cost <= bound else 0.0
    return round(min(1.0, max(0.0, (baseline - cost) / (baseline - bound))), 6)
