"""Means and their intervals against known values, and against sizes that would overflow."""

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.driver.intervals import ClusteredMean
from rollgym.driver.student_t import student_t


def clustered(values: list[tuple[int, float]]) -> ClusteredMean:
    found = ClusteredMean()
    for task, value in values:
        found.add(task, value)
    return found


@settings(max_examples=60)
@given(st.lists(st.floats(-1000, 1000), min_size=2, max_size=50))
def test_with_one_rollout_a_task_it_is_the_ordinary_standard_error(values: list[float]) -> None:
    found = clustered(list(enumerate(values)))
    assert found.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert found.std == pytest.approx(statistics.stdev(values), abs=1e-4)
    assert found.standard_error() == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)), abs=1e-6)


def test_rollouts_of_one_task_do_not_count_as_independent() -> None:
    # Two tasks, four rollouts each, all alike within a task: the error is that of two values.
    found = clustered([(0, 1.0)] * 4 + [(1, 0.0)] * 4)
    assert found.standard_error() == pytest.approx(0.5)
    interval = found.interval()
    assert interval == pytest.approx((0.5 - 12.7062 * 0.5, 0.5 + 12.7062 * 0.5), rel=1e-4)


def test_a_worked_example() -> None:
    found = clustered([(0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0), (2, 0.0)])
    # m = 3/5; sums less n·m: 1-1.2, 2-1.2, 0-0.6; SE² = 3/2 · (0.04+0.64+0.36) / 25
    assert found.standard_error() == pytest.approx(math.sqrt(1.5 * 1.04 / 25))
    assert (found.tasks, found.count, found.least, found.most) == (3, 5, 0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "mean", "interval"),
    [([], None, None), ([(0, 1.0)], 1.0, None), ([(0, 1.0), (0, 0.0)], 0.5, None)],
    ids=["none", "one", "one-task"],
)
def test_what_cannot_be_known_is_none(values: list[tuple[int, float]], mean: float | None, interval: None) -> None:
    assert (clustered(values).mean, clustered(values).interval()) == (mean, interval)


@pytest.mark.parametrize(
    "values", [[1e308, 1e308], [1e200, -1e200], [1.7e308, -1.7e308, 5.0], [1e-320, 0.0], [1e155, 0.0]], ids=str
)
def test_rewards_of_any_finite_size_give_finite_figures_or_none(values: list[float]) -> None:
    found = clustered(list(enumerate(values)))
    figures = [found.mean, found.std, found.standard_error(), *(found.interval() or ())]
    assert all(figure is None or math.isfinite(figure) for figure in figures)


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (5, 2.57058),
        (10, 2.22814),
        (30, 2.04227),
        (199, 1.97196),
    ],
)
def test_students_t_is_that_of_the_tables(degrees: int, expected: float) -> None:
    assert student_t(0.975, degrees) == pytest.approx(expected, rel=2e-4)
