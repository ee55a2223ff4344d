"""What a probe might have seen, and figures of runs, for tests that need only some of it."""

from typing import Any

from rollgym.driver.simulate.figures import Generation, RunFigures
from rollgym.driver.simulate.measured import Measured


def seen(**parts: Any) -> dict[str, Any]:
    """A probe's report of a program that ran for ten seconds and of which nothing was noted but `parts`."""
    empty: dict[str, Any] = {
        "started_at": 1000.0,
        "main_began_s": 1.0,
        "main_ended_s": 10.0,
        "gc_thresholds": [2000, 10, 10],
        "gc_frozen_objects": 0,
        "peak_rss_mb": 100.0,
        "lag": {"at_s": [], "lag_s": []},
        "clocks": {"at_s": [0.0, 10.0], "cpu_s": [0.0, 5.0], "loop_cpu_s": [0.0, 4.0], "loop_wait_s": [0.0, 1.0]},
        "collections": {"at_s": [], "pause_s": [], "generation": []},
    }
    return {**empty, **parts}


def figures(name: str = "tuned", **parts: Any) -> RunFigures:
    values: dict[str, Any] = {
        "round": 1,
        "concurrency": 64,
        "rollouts": 128,
        "elapsed_s": 2.0,
        "rollouts_per_s": 64.0,
        "steady_rollouts_per_s": 64.0,
        "generations": (Generation(0, 0.0, 0.0),) * 3,
        "lag_mean_ms": 1.0,
        "lag_p99_ms": 5.0,
        "lag_max_ms": 9.0,
        "cpu_ms_per_rollout": 1.5,
        "peak_rss_mb": 80.0,
        "loop_busy": 0.2,
        "loop_waited": 0.0,
    }
    return RunFigures(name=name, **{**values, **parts})


def collected(count: int, pause_sum_ms: float, pause_max_ms: float = 1.0) -> tuple[Generation, ...]:
    """Generations of which only the youngest was collected."""
    return (Generation(count, pause_sum_ms, pause_max_ms), Generation(0, 0.0, 0.0), Generation(0, 0.0, 0.0))


def measured(run: RunFigures) -> Measured:
    return Measured(run, lag=[(0.0, 2.0), (0.1, 400.0), (0.2, 0.0)], pauses=[(0.05, 0, 0.3), (0.12, 2, 390.0)])
