"""The reward: its formula, its baseline and its bound, against cases done by hand and against every dispatch tried."""

import math
import random

import pytest

from rollgym.env_bundle.environments.gridsim.day import HOURS, Day, Hour, make_day
from rollgym.env_bundle.environments.gridsim.grid import Dispatch, run_hour, stored_energy_credit
from rollgym.env_bundle.environments.gridsim.scoring import baseline_cost, bound_cost, reward, starting_plants


def day_of(*net_mw: float, error_mw: float = 0.0) -> Day:
    """A day of these net demands, the last one going on; every forecast off by `error_mw` times its share."""
    levels = [*net_mw, *[net_mw[-1]] * (HOURS - len(net_mw))]
    hours = tuple(Hour(level, 0.0, 0.0) for level in levels)
    return Day(seed=0, day_of_year=0, season="winter", hours=hours, errors=(Hour(error_mw, 0.0, 0.0),) * HOURS)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        pytest.param(1000.0, 0.0, id="as-dear-as-the-baseline"),
        pytest.param(600.0, 1.0, id="as-cheap-as-the-bound"),
        pytest.param(700.0, 0.75, id="three-quarters-of-the-way"),
        pytest.param(2000.0, 0.0, id="worse-than-the-baseline"),
        pytest.param(500.0, 1.0, id="never-above-1"),
    ],
)
def test_reward_is_the_share_of_the_way_from_baseline_to_bound(cost: float, expected: float) -> None:
    assert reward(cost, baseline=1000.0, bound=600.0) == expected


def test_a_day_on_which_nothing_can_be_gained_rewards_reaching_the_bound() -> None:
    assert reward(600.0, baseline=600.0, bound=600.0) == 1.0
    assert reward(601.0, baseline=600.0, bound=600.0) == 0.0


def test_a_flat_day_costs_the_baseline_only_steam() -> None:
    assert baseline_cost(day_of(100.0)) == HOURS * 100 * 22


def test_the_baseline_lets_the_peaker_make_up_for_parked_steam() -> None:
    assert baseline_cost(day_of(100.0, 150.0)) == HOURS * 100 * 22 + 23 * 50 * 95


def test_the_bound_of_a_flat_day_is_steam_for_every_hour() -> None:
    assert bound_cost(day_of(100.0)) == HOURS * 100 * 22


def test_the_bound_lets_the_battery_replace_the_peaker_as_long_as_it_lasts() -> None:
    # Steam gives 220 of 270 in every hour; the battery's 120 MWh replace the peaker for 2.4 hours and are owed at 22.
    peaker_mwh = HOURS * 50 - 120
    assert bound_cost(day_of(270.0)) == HOURS * 220 * 22 + peaker_mwh * 95 + 120 * 22


def test_the_bound_charges_from_steam_at_steams_price() -> None:
    # 300 MW in the last hour: 60 from the battery, 20 from the peaker. What was charged before is worth its cost.
    flat = (HOURS - 1) * 100 * 22
    charged_net = flat + 220 * 22 + 20 * 95 + 60 * 22
    assert bound_cost(day_of(*[100.0] * 23, 300.0)) == charged_net


def test_the_bound_takes_a_surplus_into_the_battery_for_nothing() -> None:
    assert bound_cost(day_of(-50.0, 100.0)) == (HOURS - 1) * 100 * 22 - 50 * 22


def test_no_dispatch_costs_less_than_the_bound() -> None:
    for seed in range(40):
        day, rng = make_day(seed), random.Random(seed)
        plants, costs = starting_plants(day), []
        for hour in day.hours:
            battery = rng.uniform(-60, 60)
            steam = min(220.0, hour.net_mw - battery)
            wanted = Dispatch(steam, max(0.0, hour.net_mw - battery - steam), battery)
            plants, outcome = run_hour(plants, wanted.feasible(plants), hour)
            costs.append(outcome.cost)
        assert math.fsum(costs) - stored_energy_credit(plants.battery_mwh) >= bound_cost(day)


def test_the_baseline_is_never_below_the_bound() -> None:
    for seed in range(100):
        day = make_day(seed)
        assert baseline_cost(day) > bound_cost(day)
