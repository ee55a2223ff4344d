"""The climb to the ceiling: it doubles, stops where nothing grows, and names what is saturated."""

from typing import Any

import pytest

from rollgym.driver.simulate.ceiling import climb, repeats_for, saturated, steps, verdict
from rollgym.driver.simulate.figures import RunFigures
from unit.driver.simulate.seen_runs import figures


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(64, 512, [64, 128, 256, 512]), (64, 100, [64, 100]), (8, 8, [8])]
)
def test_steps_double_up_to_the_last(first: int, last: int, expected: list[int]) -> None:
    assert list(steps(first, last)) == expected


def _at(concurrency: int, rate: float, **parts: Any) -> RunFigures:
    return figures(concurrency=concurrency, steady_rollouts_per_s=rate, **parts)


def test_the_climb_ends_with_the_first_step_that_does_not_grow() -> None:
    rates = {64: 100.0, 128: 200.0, 256: 390.0, 512: 400.0, 1024: 900.0}
    runs = climb(steps(64, 1024), lambda concurrency: _at(concurrency, rates[concurrency]))
    assert [run.concurrency for run in runs] == [64, 128, 256, 512]


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"loop_busy": 0.97, "servers_busy": {"agents": 0.5}}, "the driver's event loop"),
        ({"loop_busy": 0.5, "servers_busy": {"agents": 0.99}}, "agents"),
        ({"loop_busy": 0.7, "servers_busy": {"agents": 0.6}, "machine_busy": 0.99}, "the machine's CPUs"),
        ({"loop_busy": 0.3, "servers_busy": {"agents": 0.1}, "machine_busy": 0.2}, "no CPU"),
    ],
    ids=["driver", "agents", "machine", "neither"],
)
def test_the_saturated_part_is_named(parts: dict[str, Any], name: str) -> None:
    assert saturated(_at(64, 1.0, **parts)).startswith(name)


def test_the_verdict_says_how_much_where_and_why() -> None:
    reached = verdict([_at(64, 100.0), _at(128, 400.0), _at(256, 390.0, loop_busy=0.99)])
    assert reached.startswith("Ceiling: 400 rollouts/s at 128 in flight. Saturated: the driver's event loop.")
    assert verdict([_at(64, 100.0), _at(128, 200.0)]).startswith("Not reached")


def test_a_step_has_a_few_waves_of_rollouts() -> None:
    assert repeats_for(64, tasks=64, most=64) == 4
    assert repeats_for(4096, tasks=64, most=64) == 64
    assert repeats_for(1, tasks=64, most=64) == 1
