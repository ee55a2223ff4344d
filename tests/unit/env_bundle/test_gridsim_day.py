"""The day behind a seed: the same everywhere, plausible, and forecast the better the nearer it is."""

import hashlib
from collections import Counter

import pytest

from rollgym.env_bundle.environments.gridsim.day import HOURS, SEASONS, WIND_CAPACITY_MW, make_day

DIGEST_OF_THE_FIRST_FIFTY_DAYS = "907b36d34ee4af4d50e23065ae0749145c1346a1841324a41a67a4253c3688ab"


def test_a_seed_gives_the_same_day_on_every_python() -> None:
    days = repr([make_day(seed) for seed in range(50)])
    assert hashlib.sha256(days.encode()).hexdigest() == DIGEST_OF_THE_FIRST_FIFTY_DAYS


def test_different_seeds_give_different_days() -> None:
    assert len({make_day(seed).hours for seed in range(100)}) == 100


def test_every_season_comes_up() -> None:
    seasons = Counter(make_day(seed).season for seed in range(200))
    assert set(seasons) == set(SEASONS)
    assert min(seasons.values()) > 30


@pytest.mark.parametrize(
    ("day_of_year", "season"), [(0, "winter"), (70, "spring"), (180, "summer"), (290, "autumn"), (350, "winter")]
)
def test_the_season_follows_from_the_date(day_of_year: int, season: str) -> None:
    days = (make_day(seed) for seed in range(5000))
    assert next(day.season for day in days if day.day_of_year == day_of_year) == season


def test_powers_stay_within_what_the_grid_is_made_for() -> None:
    for seed in range(200):
        for hour in make_day(seed).hours:
            assert 100 < hour.demand_mw < 450
            assert 0 <= hour.wind_mw <= WIND_CAPACITY_MW
            assert 0 <= hour.solar_mw <= 85


def test_there_is_no_sun_at_night() -> None:
    day = make_day(7)
    assert [day.hours[hour].solar_mw for hour in (0, 3, 22, 23)] == [0.0] * 4


def test_the_forecast_gets_better_as_the_hour_comes_near() -> None:
    def mean_error(lead: int) -> float:
        days = [make_day(seed) for seed in range(60)]
        misses = [
            abs(day.forecast(hour, seen_from=hour - lead).net_mw - day.hours[hour].net_mw)
            for day in days
            for hour in range(lead, HOURS)
        ]
        return sum(misses) / len(misses)

    near, middle, far = mean_error(0), mean_error(3), mean_error(12)
    assert near < 0.7 * middle < far
