"""The weather and the demand of one day: what a seed stands for. Knows nothing of plants, costs or agents.

Only `random.Random(seed).random()` and the four basic operations are used, so that a seed gives the same day on every
Python version and machine (`gauss`, `math.sin` and `sum` of floats may differ in the last bit).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

HOURS = 24
SEASONS = ("winter", "spring", "summer", "autumn")
DAYS_IN_YEAR = 365
WIND_CAPACITY_MW = 90.0
NEAR_ERROR = 0.3
FULL_ERROR_LEAD_H = 7
"""A forecast carries 30 % of its midnight error for the hour at hand, and all of it from seven hours ahead."""

_DEMAND_SHAPE = {
    "winter": (58, 55, 53, 53, 56, 64, 77, 89, 92, 88, 84, 82, 80, 79, 79, 82, 90, 99, 100, 97, 91, 82, 72, 64),
    "spring": (58, 55, 53, 53, 55, 61, 71, 80, 83, 82, 80, 79, 78, 77, 76, 77, 81, 88, 95, 98, 94, 84, 73, 64),
    "summer": (60, 57, 55, 54, 55, 58, 64, 72, 79, 84, 88, 91, 93, 95, 97, 99, 100, 99, 96, 92, 88, 82, 73, 66),
    "autumn": (57, 54, 53, 53, 55, 62, 74, 84, 86, 83, 80, 79, 78, 77, 77, 79, 85, 94, 98, 95, 88, 79, 70, 62),
}
"""Demand by hour, percent of the season's peak."""
_DEMAND_PEAK_MW = {"winter": 350.0, "spring": 305.0, "summer": 345.0, "autumn": 320.0}
_SOLAR_SHAPE = (0, 0, 0, 0, 0, 2, 10, 26, 46, 66, 83, 95, 100, 98, 88, 73, 55, 35, 17, 5, 0, 0, 0, 0)
"""Clear-sky output by hour, percent of the season's noon."""
_SOLAR_NOON_MW = {"winter": 28.0, "spring": 62.0, "summer": 85.0, "autumn": 45.0}
_MEAN_WIND = {"winter": 0.46, "spring": 0.40, "summer": 0.28, "autumn": 0.42}


@dataclass(frozen=True, slots=True)
class Hour:
    """Mean powers of one hour, MW."""

    demand_mw: float
    wind_mw: float
    solar_mw: float

    @property
    def net_mw(self) -> float:
        """Demand that wind and sun leave to the plants; below zero there is too much of them."""
        return round(self.demand_mw - self.wind_mw - self.solar_mw, 1)


@dataclass(frozen=True, slots=True)
class Day:
    """Twenty-four hours as they will be, and the errors that the midnight forecast makes about them."""

    seed: int
    day_of_year: int
    season: str
    hours: tuple[Hour, ...]
    errors: tuple[Hour, ...]

    def forecast(self, hour: int, *, seen_from: int) -> Hour:
        """What is forecast for `hour` when `seen_from` is the hour about to be decided."""
        lead = hour - seen_from
        share = min(1.0, NEAR_ERROR + (1.0 - NEAR_ERROR) * lead / FULL_ERROR_LEAD_H)
        actual, error = self.hours[hour], self.errors[hour]
        return Hour(
            demand_mw=round(max(0.0, actual.demand_mw + share * error.demand_mw), 1),
            wind_mw=round(min(WIND_CAPACITY_MW, max(0.0, actual.wind_mw + share * error.wind_mw)), 1),
            solar_mw=round(max(0.0, actual.solar_mw + share * error.solar_mw), 1),
        )


def make_day(seed: int) -> Day:
    """The day of `seed`: its date, its weather, its demand and its forecast errors."""
    rng = random.Random(seed)
    day_of_year = int(rng.random() * DAYS_IN_YEAR)
    season = _season(day_of_year)
    demand = _demand(rng, season)
    wind = _wind(rng, season)
    solar = _solar(rng, season)
    hours = tuple(Hour(demand[hour], wind[hour], solar[hour]) for hour in range(HOURS))
    errors = _errors(rng, hours)
    return Day(seed=seed, day_of_year=day_of_year, season=season, hours=hours, errors=errors)


def _season(day_of_year: int) -> str:
    """Meteorological seasons of the north: December to February is winter."""
    return SEASONS[(day_of_year + 31) % DAYS_IN_YEAR * 4 // DAYS_IN_YEAR]


def _unit(rng: random.Random) -> float:
    """A number of mean 0 and standard deviation 1, bell-shaped, never past ±3.5."""
    return (rng.random() + rng.random() + rng.random() + rng.random() - 2.0) * 1.7320508


def _demand(rng: random.Random, season: str) -> list[float]:
    level = _DEMAND_PEAK_MW[season] * (1.0 + 0.035 * _unit(rng))
    drift, values = 0.0, []
    for share in _DEMAND_SHAPE[season]:
        drift = 0.75 * drift + 4.0 * _unit(rng)
        values.append(round(level * share / 100 + drift, 1))
    return values


def _wind(rng: random.Random, season: str) -> list[float]:
    mean = _MEAN_WIND[season] * (1.0 + 0.35 * _unit(rng))
    factor, values = mean + 0.1 * _unit(rng), []
    for _ in range(HOURS):
        factor = mean + 0.88 * (factor - mean) + 0.07 * _unit(rng)
        factor = min(1.0, max(0.0, factor))
        values.append(round(WIND_CAPACITY_MW * factor, 1))
    return values


def _solar(rng: random.Random, season: str) -> list[float]:
    clear = 0.45 + 0.55 * rng.random()
    cloud, values = 0.0, []
    for share in _SOLAR_SHAPE:
        cloud = 0.6 * cloud + 0.08 * _unit(rng)
        sky = min(1.0, max(0.1, clear + cloud))
        values.append(round(_SOLAR_NOON_MW[season] * share / 100 * sky, 1))
    return values


def _errors(rng: random.Random, hours: tuple[Hour, ...]) -> tuple[Hour, ...]:
    demand, wind, cloud, errors = 0.0, 0.0, 0.0, []
    for hour in hours:
        demand = 0.8 * demand + 3.0 * _unit(rng)
        wind = 0.85 * wind + 4.5 * _unit(rng)
        cloud = 0.7 * cloud + 0.12 * _unit(rng)
        errors.append(Hour(round(demand, 1), round(wind, 1), round(hour.solar_mw * cloud, 1)))
    return tuple(errors)
