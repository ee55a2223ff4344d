"""Figures as Markdown tables, that can be read on a terminal and put into a document as they are."""

from __future__ import annotations

from collections.abc import Sequence

from rollgym.driver.simulate.figures import Generation, RunFigures
from rollgym.driver.simulate.marks import median_of

_HEADINGS = (
    "run",
    "rollouts/s",
    "collections",
    *(f"gen {number}: n / sum / longest ms" for number in range(3)),
    "lag ms: mean / p99 / max",
    "CPU ms/rollout",
    "no CPU free",
    "host took",
    "peak MB",
)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, numbers to the right."""
    widths = [max(len(heading), *(len(row[at]) for row in rows)) for at, heading in enumerate(headings)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cells[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
        ]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * (widths[0] + 1) + "-", *("-" * (width + 1) + ":" for width in widths[1:])]
    return "\n".join([line(headings), "|" + "|".join(rule) + "|", *map(line, rows)])


def capacity_table(runs: Sequence[RunFigures]) -> str:
    """A row a run, then of each variant the median of its rounds, figure by figure."""
    rows = [_row(f"{run.name} {run.round}", run) for run in runs]
    names = list(dict.fromkeys(run.name for run in runs))
    if len(runs) > len(names):
        rows += [_row(f"**{name}, median**", median_of([run for run in runs if run.name == name])) for name in names]
    return table(_HEADINGS, rows)


def built_in_table(run: RunFigures) -> str:
    """The built-in agent's row: figures per model call."""
    headings = (
        "run",
        "model calls/s",
        "driver CPU ms/call",
        "calls",
        "rollouts/s",
        "lag ms: mean / p99 / max",
        "collections",
        "longest pause ms",
        "no CPU free",
        "host took",
        "peak MB",
    )
    calls = max(run.model_calls, 1)
    cells = (
        f"{run.name}, {run.concurrency:,} in flight",
        f"{run.model_calls / run.elapsed_s if run.elapsed_s else 0:,.0f}",
        f"{run.cpu_ms_per_rollout * run.rollouts / calls:.2f}",
        f"{run.model_calls:,}",
        f"{run.rollouts_per_s:,.1f}",
        _lag(run),
        f"{run.collections:,}",
        longest_pause(run),
        f"{run.loop_waited:.0%}",
        f"{run.machine_stolen:.1%}",
        f"{run.peak_rss_mb:,.0f}",
    )
    return table(headings, [cells])


def ceiling_table(runs: Sequence[RunFigures]) -> str:
    """A row a step: throughput, and who was busy."""
    servers = list(dict.fromkeys(name for run in runs for name in run.servers_busy))
    headings = (
        "in flight",
        "rollouts/s",
        "steady rollouts/s",
        "driver's loop",
        "no CPU free",
        "host took",
        *servers,
        "machine",
        "lag ms: mean / p99 / max",
        "peak MB",
    )
    rows = [
        (
            f"{run.concurrency:,}",
            f"{run.rollouts_per_s:,.0f}",
            f"{run.steady_rollouts_per_s:,.0f}",
            f"{run.loop_busy:.0%}",
            f"{run.loop_waited:.0%}",
            f"{run.machine_stolen:.1%}",
            *(f"{run.servers_busy.get(name, 0.0):.0%}" for name in servers),
            f"{run.machine_busy:.0%}",
            _lag(run),
            f"{run.peak_rss_mb:,.0f}",
        )
        for run in runs
    ]
    return table(headings, rows)


def _row(name: str, run: RunFigures) -> tuple[str, ...]:
    return (
        name,
        f"{run.rollouts_per_s:,.0f}",
        f"{run.collections:,}",
        *map(_generation, run.generations),
        _lag(run),
        f"{run.cpu_ms_per_rollout:.2f}",
        f"{run.loop_waited:.0%}",
        f"{run.machine_stolen:.1%}",
        f"{run.peak_rss_mb:,.0f}",
    )


def longest_pause(run: RunFigures) -> str:
    return "-" if run.pause_max_ms is None else f"{run.pause_max_ms:,.1f}"


def _generation(generation: Generation) -> str:
    if not generation.collections:
        return "0"
    return f"{generation.collections:,} / {generation.pause_sum_ms:,.1f} / {generation.pause_max_ms:,.1f}"


def _lag(run: RunFigures) -> str:
    return f"{run.lag_mean_ms:,.1f} / {run.lag_p99_ms:,.1f} / {run.lag_max_ms:,.1f}"
