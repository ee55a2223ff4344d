"""What the figures of a simulation must show, each mark judged by the medians of its variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rollgym.driver.simulate.figures import Generation, RunFigures

COLLECTIONS_CUT = 20.0
PAUSES_CUT = 4.0
LONGEST_PAUSE_MS = 15.0
NOISE = {"collections": (0.10, 3.0), "pause_sum_ms": (0.25, 10.0)}
"""How far `off` may be from `default`: a share of it, or so much in its unit, or the spread of either's own rounds."""


@dataclass(frozen=True)
class Mark:
    """One thing that must hold: what, what was seen, whether it holds."""

    what: str
    seen: str
    holds: bool

    def __str__(self) -> str:
        return f"{'ok  ' if self.holds else 'MISS'} {self.what}: {self.seen}"


def marks_of(runs: Sequence[RunFigures], *, retained: bool) -> list[Mark]:
    """All marks that the variants which were run allow to judge."""
    by_name: dict[str, list[RunFigures]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    default, tuned, off = (by_name.get(name, []) for name in ("default", "tuned", "off"))
    marks = [_agree(runs)]
    if default and tuned and retained:
        marks += [
            _cut("tuned cuts collections", default, tuned, lambda run: max(run.collections, 1), COLLECTIONS_CUT),
            _cut("tuned cuts the sum of pauses", default, tuned, lambda run: max(run.pause_sum_ms, 0.001), PAUSES_CUT),
        ]
    if default and not retained:
        pauses_ms = [run.pause_max_ms for run in default if run.pause_max_ms is not None]
        what = f"without retained results even default pauses under {LONGEST_PAUSE_MS:g} ms"
        seen = f"longest {max(pauses_ms):.1f} ms" if pauses_ms else "nothing was collected"
        marks.append(Mark(what, seen, max(pauses_ms, default=0.0) < LONGEST_PAUSE_MS))
    if default and off:
        marks += [
            _near("off collects as default does", default, off, lambda run: run.collections, *NOISE["collections"]),
            _near("off pauses as default does, ms", default, off, lambda run: run.pause_sum_ms, *NOISE["pause_sum_ms"]),
            _untouched(default, off),
        ]
    return marks


def median_of(runs: Sequence[RunFigures]) -> RunFigures:
    """A run whose every figure in the table is the median over `runs`."""

    def of(figure: Callable[[RunFigures], float]) -> float:
        return median(map(figure, runs))

    generations = tuple(
        Generation(
            round(median(run.generations[number].collections for run in runs)),
            median(run.generations[number].pause_sum_ms for run in runs),
            median(run.generations[number].pause_max_ms for run in runs),
        )
        for number in range(3)
    )
    return replace(
        runs[0],
        round=0,
        generations=generations,
        elapsed_s=of(lambda run: run.elapsed_s),
        rollouts_per_s=of(lambda run: run.rollouts_per_s),
        steady_rollouts_per_s=of(lambda run: run.steady_rollouts_per_s),
        lag_mean_ms=of(lambda run: run.lag_mean_ms),
        lag_p99_ms=of(lambda run: run.lag_p99_ms),
        lag_max_ms=of(lambda run: run.lag_max_ms),
        cpu_ms_per_rollout=of(lambda run: run.cpu_ms_per_rollout),
        peak_rss_mb=of(lambda run: run.peak_rss_mb),
        loop_busy=of(lambda run: run.loop_busy),
        loop_waited=of(lambda run: run.loop_waited),
        machine_busy=of(lambda run: run.machine_busy),
        machine_stolen=of(lambda run: run.machine_stolen),
    )


def _agree(runs: Sequence[RunFigures]) -> Mark:
    problems = [f"{run.name} {run.round}: {problem}" for run in runs for problem in run.disagreements]
    return Mark(
        "exit code, files, summary and agents agree in every run", "; ".join(problems) or "they do", not problems
    )


def _cut(
    what: str,
    default: Sequence[RunFigures],
    tuned: Sequence[RunFigures],
    figure: Callable[[RunFigures], float],
    least: float,
) -> Mark:
    before, after = median(map(figure, default)), median(map(figure, tuned))
    seen = f"{before:,.0f} to {after:,.0f}, {before / after:.1f} ×"
    return Mark(f"{what} at least {least:g} ×", seen, before / after >= least)


def _near(
    what: str,
    default: Sequence[RunFigures],
    off: Sequence[RunFigures],
    figure: Callable[[RunFigures], float],
    share: float,
    least: float,
) -> Mark:
    before, after = [figure(run) for run in default], [figure(run) for run in off]
    noise = max(share * median(before), least, max(before) - min(before), max(after) - min(after))
    distance = abs(median(after) - median(before))
    seen = f"{median(before):,.1f} and {median(after):,.1f}, noise {noise:,.1f}"
    return Mark(what, seen, distance <= noise)


def _untouched(default: Sequence[RunFigures], off: Sequence[RunFigures]) -> Mark:
    left = {(run.gc_thresholds, run.gc_frozen_objects) for run in (*default, *off)}
    seen = "; ".join(f"thresholds {thresholds}, {frozen} objects frozen" for thresholds, frozen in sorted(left))
    return Mark("off leaves the collector as Python set it", seen, len(left) == 1)
