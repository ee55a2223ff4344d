"""One row of the table: servers up, the driver run against them, everything seen of it brought together."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollgym.driver.simulate.agreement import Told, disagreements, served_by
from rollgym.driver.simulate.driver_run import DriverEnd, DriverRun, run_measured
from rollgym.driver.simulate.figures import (
    RunFigures,
    Window,
    clock_between,
    generations,
    lag_ms,
    lag_series,
    pauses,
    quantile,
    steady_rate,
)
from rollgym.driver.simulate.load_watch import LoadWatch
from rollgym.driver.simulate.processes import (
    ServerProcess,
    SimulationError,
    module_command,
    serving,
)
from rollgym.driver.simulate.settings import SimulationSettings
from rollgym.driver.simulate.variants import Variant


@dataclass(frozen=True)
class Measured:
    """A run's figures, and what its picture shows."""

    figures: RunFigures
    lag: list[tuple[float, float]]
    pauses: list[tuple[float, int, float]]


@contextlib.contextmanager
def agent_servers(settings: SimulationSettings) -> Iterator[list[ServerProcess]]:
    """The agents; the first of them is the head, too."""
    flags = {
        "--latency": settings.latency,
        "--rate": settings.rate,
        "--fail-rate": settings.fail_rate,
        "--seed": settings.seed,
        "--messages": settings.messages,
        "--characters": settings.characters,
        "--calls": settings.calls,
    }
    words = [str(word) for flag in flags.items() for word in flag]
    with contextlib.ExitStack() as stack:
        further = [
            stack.enter_context(serving("agents", module_command("agent_fleet", *words)))
            for _ in range(settings.agents - 1)
        ]
        also = [word for server in further for word in ("--also", server.url)]
        first = stack.enter_context(serving("agents", module_command("agent_fleet", *words, *also)))
        yield [first, *further]


def measure_agents(
    settings: SimulationSettings, variant: Variant, number: int, inputs: Path, folder: Path, *, repeats: int
) -> Measured:
    """Run the driver once against simulated agents. Raises SimulationError where a part fails."""
    with agent_servers(settings) as servers, emptied(folder, keep=settings.keep):
        retain = ("++retain_results_in_memory=true",) if settings.retain else ()
        run = DriverRun(
            head_url=servers[0].url,
            inputs=inputs,
            output=folder / "rollouts.jsonl",
            repeats=repeats,
            concurrency=settings.concurrency,
            overrides=(*variant.overrides, *retain, f"++max_rollout_attempts={settings.attempts}", *settings.overrides),
        )
        with LoadWatch(servers) as load:
            end = run_measured(run.words(), timeout_s=settings.timeout_s, hold_gc=variant.hold_gc)
        stats = [server.stat() for server in servers]
        first_at, answered_at = dispatch_times(stats, end)
        owed = settings.tasks * repeats
        told = Told(owed, end.exit_code, end.summary(), run.paths)
        disagreeing = disagreements(told, served_by(stats), max_attempts=settings.attempts)
    late_s = [late for stat in stats for late in stat["late_s"]]
    return measured(
        end.seen,
        (first_at, max(answered_at)),
        load,
        name=variant.name,
        round=number,
        concurrency=settings.concurrency,
        rollouts=owed,
        steady_rollouts_per_s=steady_rate(answered_at),
        peak_in_flight=sum(stat["peak_in_flight"] for stat in stats),
        late_max_s=max(late_s) if late_s else None,
        disagreements=tuple(disagreeing),
    )


def dispatch_times(stats: Sequence[dict[str, Any]], end: DriverEnd) -> tuple[float, list[float]]:
    """When the first rollout was asked for, and when each answer was given, on the machine's clock."""
    first_at = min((stat["first_run_at"] for stat in stats if stat["first_run_at"] is not None), default=None)
    answered_at = [at for stat in stats for at in stat["answered_at"]]
    if first_at is None or not answered_at:
        raise SimulationError(f"the driver exited {end.exit_code} before its first rollout: {end.errors}")
    return first_at, answered_at


def measured(
    seen: dict[str, Any], between: tuple[float, float], load: LoadWatch, *, rollouts: int, **more: Any
) -> Measured:
    """The figures of a run, from what the probe saw of its program and the load watch of the others.

    `between` are the first dispatch and the last answer, of the machine's clock; `more` is what else RunFigures take.
    """
    window = Window.of(seen, *between)
    lags, collections = lag_ms(seen, window), pauses(seen, window)
    elapsed_s = window.answered_s - window.began_s
    cpu_s = clock_between(seen, "cpu_s", window.began_s, window.ended_s)
    loop_cpu_s, loop_wait_s = (
        clock_between(seen, clock, window.began_s, window.answered_s) for clock in ("loop_cpu_s", "loop_wait_s")
    )
    figures = RunFigures(
        rollouts=rollouts,
        elapsed_s=elapsed_s,
        rollouts_per_s=rollouts / elapsed_s if elapsed_s > 0 else 0.0,
        generations=generations(collections),
        lag_mean_ms=sum(lags) / len(lags) if lags else 0.0,
        lag_p99_ms=quantile(lags, 0.99),
        lag_max_ms=max(lags, default=0.0),
        cpu_ms_per_rollout=1000 * cpu_s / rollouts,
        peak_rss_mb=seen["peak_rss_mb"],
        loop_busy=loop_cpu_s / elapsed_s if elapsed_s > 0 else 0.0,
        loop_waited=loop_wait_s / elapsed_s if elapsed_s > 0 else 0.0,
        servers_busy=load.servers_busy(*between),
        machine_busy=load.machine_busy(*between),
        machine_stolen=load.machine_stolen(*between),
        gc_thresholds=tuple(seen["gc_thresholds"]),
        gc_frozen_objects=seen["gc_frozen_objects"],
        **more,
    )
    return Measured(figures, lag_series(seen, window), collections)


@contextlib.contextmanager
def emptied(folder: Path, *, keep: bool) -> Iterator[None]:
    """A folder for one run's artifacts, empty at the start, gone at the end unless they are to be kept."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
