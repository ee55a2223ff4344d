"""From samples to figures: only what lies between the first dispatch and the end counts."""

import pytest

from rollgym.driver.simulate.figures import (
    Window,
    clock_between,
    generations,
    lag_ms,
    lag_series,
    pauses,
    quantile,
    steady_rate,
)
from unit.driver.simulate.seen_runs import seen

WINDOW = Window(began_s=2.0, answered_s=8.0, ended_s=9.0)


def test_a_window_joins_the_clocks_of_program_and_servers() -> None:
    window = Window.of(seen(main_ended_s=9.5), 1002.0, 1008.0)
    assert (window.began_s, window.answered_s, window.ended_s) == (2.0, 8.0, 9.5)


def test_lag_before_the_first_dispatch_and_after_the_end_is_left_out() -> None:
    report = seen(lag={"at_s": [1.0, 2.0, 5.0, 9.0, 9.1], "lag_s": [9.0, 0.001, 0.002, 0.003, 9.0]})
    assert lag_ms(report, WINDOW) == pytest.approx([1.0, 2.0, 3.0])


def test_lag_over_time_keeps_the_longest_of_each_tenth_of_a_second() -> None:
    report = seen(lag={"at_s": [2.01, 2.05, 2.25], "lag_s": [0.001, 0.030, 0.002]})
    assert lag_series(report, WINDOW) == [(0.0, 30.0), (0.2, 2.0)]


def test_pauses_are_counted_by_generation() -> None:
    records = {"at_s": [1.0, 3.0, 4.0, 5.0], "pause_s": [1.0, 0.002, 0.004, 0.3], "generation": [2, 0, 0, 2]}
    young, middle, old = generations(pauses(seen(collections=records), WINDOW))
    assert [each.collections for each in (young, middle, old)] == [2, 0, 1]
    assert [each.pause_sum_ms for each in (young, middle, old)] == pytest.approx([6, 0, 300])
    assert [each.pause_max_ms for each in (young, middle, old)] == pytest.approx([4, 0, 300])


def test_a_clock_is_interpolated_and_holds_past_its_last_reading() -> None:
    assert clock_between(seen(), "cpu_s", 2.0, 8.0) == pytest.approx(3.0)
    assert clock_between(seen(), "cpu_s", -1.0, 99.0) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [([], 0.99, 0.0), ([3.0], 0.5, 3.0), ([1.0, 2.0, 3.0], 0.25, 1.5), ([2.0, 1.0], 1.0, 2.0)],
)
def test_quantiles(values: list[float], q: float, expected: float) -> None:
    assert quantile(values, q) == expected


def test_the_steady_rate_is_that_of_the_middle() -> None:
    ramp, middle, tail = [0.0, 5.0], [10 + 0.1 * number for number in range(100)], [40.0, 60.0]
    assert steady_rate(ramp + middle + tail) == pytest.approx(10.0)
    assert steady_rate([]) == 0.0
    assert steady_rate([1.0]) == 0.0
