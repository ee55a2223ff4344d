"""Metrics of every process: a maximum forgets, and the exposition holds what was observed."""

import pytest
from prometheus_client import CollectorRegistry

from rollgym.common.metrics import ProcessMetrics, WindowedMaximum


class Clock:
    """A clock that moves when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_one_stall_leaves_the_maximum_after_its_window(clock: Clock) -> None:
    maximum = WindowedMaximum(window_s=30, clock=clock)
    maximum.add(2.0)
    assert maximum.value() == 2.0
    for _ in range(61):
        clock.now += 1
        maximum.add(0.001)
    assert maximum.value() == 0.001


def test_a_maximum_lasts_at_least_its_window(clock: Clock) -> None:
    maximum = WindowedMaximum(window_s=30, clock=clock)
    for second in range(29):
        maximum.add(2.0 if second == 0 else 0.001)
        clock.now += 1
    assert maximum.value() == 2.0


def test_a_process_that_observes_nothing_more_shows_no_old_maximum(clock: Clock) -> None:
    maximum = WindowedMaximum(window_s=30, clock=clock)
    maximum.add(2.0)
    clock.now += 61
    assert maximum.value() == 0.0


def test_observations_reach_the_registry_with_bounded_labels() -> None:
    registry = CollectorRegistry()
    process = ProcessMetrics(registry)
    process.observe_pause(2, 0.3)
    process.observe_lag(0.04)
    assert registry.get_sample_value("rollgym_gc_collections_total", {"generation": "2"}) == 1
    assert registry.get_sample_value("rollgym_gc_collections_total", {"generation": "0"}) == 0
    assert registry.get_sample_value("rollgym_gc_pause_seconds_sum", {"generation": "2"}) == 0.3
    assert registry.get_sample_value("rollgym_gc_pause_max_seconds") == 0.3
    assert registry.get_sample_value("rollgym_event_loop_lag_seconds_max") == 0.04
    assert registry.get_sample_value("rollgym_event_loop_lag_seconds_count") == 1
