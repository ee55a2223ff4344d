"""One hour of the grid: reach of the plants, balance, cost, and the battery's losses, against cases done by hand."""

import pytest

from rollgym.env_bundle.environments.gridsim.day import Hour
from rollgym.env_bundle.environments.gridsim.grid import Dispatch, Plants, run_hour, stored_energy_credit


@pytest.mark.parametrize(
    ("wanted", "plants", "reached"),
    [
        pytest.param((150, 0, 0), Plants(100.0), (112.0, 0.0, 0.0), id="steam-ramps-up-by-12"),
        pytest.param((60, 0, 0), Plants(100.0), (88.0, 0.0, 0.0), id="steam-ramps-down-by-12"),
        pytest.param((0, 0, 0), Plants(65.0), (60.0, 0.0, 0.0), id="steam-has-a-minimum"),
        pytest.param((300, 0, 0), Plants(215.0), (220.0, 0.0, 0.0), id="steam-has-a-maximum"),
        pytest.param((100, 500, 0), Plants(100.0), (100.0, 200.0, 0.0), id="peaker-has-a-maximum"),
        pytest.param((100, -5, 0), Plants(100.0), (100.0, 0.0, 0.0), id="peaker-never-below-zero"),
        pytest.param((100, 0, 90), Plants(100.0), (100.0, 0.0, 60.0), id="battery-power-out"),
        pytest.param((100, 0, -90), Plants(100.0), (100.0, 0.0, -60.0), id="battery-power-in"),
        pytest.param((100, 0, 60), Plants(100.0, 20.0), (100.0, 0.0, 19.0), id="battery-nearly-empty"),
        pytest.param((100, 0, -60), Plants(100.0, 221.0), (100.0, 0.0, -20.0), id="battery-nearly-full"),
    ],
)
def test_set_points_are_moved_to_what_the_plants_can_reach(
    wanted: tuple[float, float, float], plants: Plants, reached: tuple[float, float, float]
) -> None:
    assert Dispatch(*wanted).feasible(plants) == Dispatch(*reached)


def test_a_balanced_hour_costs_its_fuel() -> None:
    _, outcome = run_hour(Plants(100.0), Dispatch(100.0, 20.0, 0.0), Hour(150.0, 20.0, 10.0))
    assert (outcome.unserved_mwh, outcome.curtailed_mwh, outcome.cost) == (0.0, 0.0, 100 * 22 + 20 * 95)


def test_what_is_not_served_costs_400() -> None:
    _, outcome = run_hour(Plants(100.0), Dispatch(100.0, 0.0, 0.0), Hour(110.0, 0.0, 0.0))
    assert (outcome.unserved_mwh, outcome.cost) == (10.0, 100 * 22 + 10 * 400)


def test_surplus_is_lost_and_paid_for() -> None:
    _, outcome = run_hour(Plants(100.0), Dispatch(100.0, 0.0, 0.0), Hour(80.0, 0.0, 0.0))
    assert (outcome.curtailed_mwh, outcome.cost) == (20.0, 2200.0)


def test_the_battery_loses_five_percent_each_way() -> None:
    charged, _ = run_hour(Plants(100.0, 100.0), Dispatch(100.0, 0.0, -40.0), Hour(60.0, 0.0, 0.0))
    assert charged.battery_mwh == 138.0
    discharged, _ = run_hour(Plants(100.0, 100.0), Dispatch(100.0, 0.0, 38.0), Hour(138.0, 0.0, 0.0))
    assert discharged.battery_mwh == 60.0


def test_stored_energy_counts_at_the_price_of_steam() -> None:
    assert stored_energy_credit(120.0) == 0.0
    assert stored_energy_credit(130.0) == 220.0
    assert stored_energy_credit(0.0) == -2640.0
