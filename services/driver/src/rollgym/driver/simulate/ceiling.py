"""The ceiling: concurrency is doubled until throughput stops growing, and what is then saturated is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rollgym.driver.simulate.figures import RunFigures

GROWTH = 1.05
"""A step whose steady throughput is not this many times the best so far did not grow."""
SATURATED_PROCESS = 0.85
SATURATED_MACHINE = 0.92
WAVES = 4


def steps(first: int, last: int) -> Iterator[int]:
    """Concurrencies from `first`, doubling, to `last`."""
    concurrency = first
    while concurrency < last:
        yield concurrency
        concurrency *= 2
    yield last


def climb(concurrencies: Iterator[int], measure: Callable[[int], RunFigures]) -> list[RunFigures]:
    """Measure step after step until one does not grow; that one is the last."""
    runs: list[RunFigures] = []
    for concurrency in concurrencies:
        best = max((run.steady_rollouts_per_s for run in runs), default=0.0)
        runs.append(measure(concurrency))
        if runs[-1].steady_rollouts_per_s < GROWTH * best:
            break
    return runs


def repeats_for(concurrency: int, *, tasks: int, most: int) -> int:
    """Repeats that make a few waves of `concurrency` rollouts, at most `most`."""
    return max(1, min(most, -(-WAVES * concurrency // tasks)))


def verdict(runs: Sequence[RunFigures]) -> str:
    """The ceiling in a sentence: how much, at which concurrency, and what holds it there."""
    best = max(runs, key=lambda run: run.steady_rollouts_per_s)
    last = runs[-1]
    where = f"{best.steady_rollouts_per_s:,.0f} rollouts/s at {best.concurrency:,} in flight"
    if last is best:
        return f"Not reached: throughput still grew at the last step, {where}. Raise --concurrency. {_busy(last)}"
    return f"Ceiling: {where}. Saturated: {saturated(last)}. {_busy(last)}"


def saturated(run: RunFigures) -> str:
    """The part without which more would get through: a process at the end of its CPU, else the whole machine."""
    processes = {"the driver's event loop": run.loop_busy, **run.servers_busy}
    name, busy = max(processes.items(), key=lambda item: item[1])
    if busy >= SATURATED_PROCESS:
        return name
    if run.machine_busy >= SATURATED_MACHINE:
        return "the machine's CPUs, which driver and servers share"
    return "no CPU: look at the disk, and at what else waits"


def _busy(run: RunFigures) -> str:
    shares = {"driver's loop": run.loop_busy, **run.servers_busy, "machine": run.machine_busy}
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return f"Busy at the last step, of one CPU each, the machine of all: {told}."
