"""Quantiles: exact to 10,000, within 1% beyond, never above the maximum, the same for one, two and three values."""

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.driver.durations import EXACT_DURATIONS, Durations

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


def durations(values: list[float]) -> Durations:
    found = Durations()
    for value in values:
        found.add(value)
    return found


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([], 0.5, None),
        ([3.0], 0.0, 3.0),
        ([3.0], 0.99, 3.0),
        ([1.0, 3.0], 0.5, 2.0),
        ([1.0, 3.0], 0.9, 2.8),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([3.0, 1.0, 2.0], 0.75, 2.5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.75, 4.0),
    ],
)
def test_small_numbers_of_values_are_interpolated(values: list[float], q: float, expected: float | None) -> None:
    assert durations(values).quantile(q) == (expected if expected is None else pytest.approx(expected))


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200))
def test_exact_quantiles_are_those_of_the_standard_library(values: list[float]) -> None:
    found = durations(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    assert [found.quantile(q) for q in (0.25, 0.5, 0.75)] == pytest.approx(quartiles)
    assert all((found.quantile(q) or 0.0) <= max(values) for q in QUANTILES)


def test_beyond_the_exact_ones_a_quantile_is_within_one_percent() -> None:
    source = random.Random(5)
    values = [source.lognormvariate(0, 1.5) for _ in range(EXACT_DURATIONS * 3)]
    found, ordered = durations(values), sorted(values)
    for q in (0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999):
        assert found.quantile(q) == pytest.approx(ordered[int((len(ordered) - 1) * q)], rel=0.01)
    assert found.quantile(1.0) == max(values)
    assert found.mean_s == pytest.approx(statistics.fmean(values))


def test_the_step_from_exact_to_near_moves_no_quantile_by_more_than_a_percent() -> None:
    found = durations([float(n) for n in range(1, EXACT_DURATIONS + 1)])
    before = {q: found.quantile(q) for q in QUANTILES}
    found.add(EXACT_DURATIONS / 2)
    for q in QUANTILES[1:]:
        assert found.quantile(q) == pytest.approx(before[q], rel=0.01)


def test_memory_is_bounded_however_many_are_added() -> None:
    found = durations([1.0 + n % 7 for n in range(EXACT_DURATIONS * 2)])
    assert found.count == EXACT_DURATIONS * 2
    assert not found._ordered
    assert found._buckets is not None
    assert len(found._buckets) == 7


def test_zero_durations_do_no_harm() -> None:
    assert durations([0.0] * (EXACT_DURATIONS + 1)).quantile(0.5) == pytest.approx(0.0, abs=1e-6)
