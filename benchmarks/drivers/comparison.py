"""What a comparison shows: a table a condition, ratios to the tuned peer, and the marks that ours must reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.drivers.programs import OURS, PEER, PEER_TUNED, Outcome

from rollgym.driver.simulate.figures import RunFigures
from rollgym.driver.simulate.marks import Mark, median_of
from rollgym.driver.simulate.tables import longest_pause, table

SATURATED, CALM = "saturated", "calm"
MEMORY_MARGIN = 0.10


@dataclass(frozen=True)
class Condition:
    """How long the agents take, as a latency that `gym simulate capacity` takes, too."""

    name: str
    latency: str


CONDITIONS = {SATURATED: Condition(SATURATED, "uniform:0.2:1.0"), CALM: Condition(CALM, "uniform:6:14")}


@dataclass(frozen=True)
class Goal:
    """A bound on one figure of ours, as it is or as a multiple of the tuned peer's."""

    what: str
    condition: str
    figure: Callable[[RunFigures], float | None]
    """None where there was nothing to be seen."""
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    as_ratio: bool = False

    def judge(self, ours: RunFigures, peer: RunFigures | None) -> Mark | None:
        """None where it takes a peer and there is none."""
        value, unit = self.figure(ours), self.unit
        if self.as_ratio:
            beside = None if peer is None else self.figure(peer)
            if not beside or value is None:
                return None
            value, unit = value / beside, f"× of {PEER_TUNED}"
        bound = f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"
        if value is None:
            return Mark(f"{self.condition}: {self.what} {bound} {unit}", "there was none", self.at_least is None)
        holds = (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)
        return Mark(f"{self.condition}: {self.what} {bound} {unit}", f"{value:,.2f}", holds)


GOALS = (
    Goal("rollouts/s", SATURATED, lambda run: run.rollouts_per_s, "", at_least=2.2, as_ratio=True),
    Goal("CPU per rollout", SATURATED, lambda run: run.cpu_ms_per_rollout, "", at_most=0.40, as_ratio=True),
    Goal("longest loop lag", SATURATED, lambda run: run.lag_max_ms, "ms", at_most=50),
    Goal("longest loop lag", CALM, lambda run: run.lag_max_ms, "ms", at_most=30),
    Goal("longest pause", SATURATED, lambda run: run.pause_max_ms, "ms", at_most=15),
    Goal("peak memory", SATURATED, lambda run: run.peak_rss_mb, "MB", at_most=200),
)

Medians = Mapping[tuple[str, str], RunFigures]
"""By condition and program."""


def medians(outcomes: Mapping[tuple[str, str], Sequence[Outcome]]) -> dict[tuple[str, str], RunFigures]:
    return {key: median_of([outcome.figures for outcome in each]) for key, each in outcomes.items()}


def condition_table(outcomes: Mapping[tuple[str, str], Sequence[Outcome]], condition: str) -> str:
    """A row a program, the medians of its rounds; ratios are to the tuned peer."""
    headings = (
        "driver",
        "rollouts/s",
        "CPU ms/rollout",
        "collections",
        "longest pause ms",
        "pause sum s",
        "lag p99 ms",
        "lag max ms",
        "no CPU free",
        "host took",
        "peak MB",
        "rows on disk",
    )
    of = medians(outcomes)
    peer = of.get((condition, PEER_TUNED))
    rows = []
    for name in (PEER, PEER_TUNED, OURS):
        if (run := of.get((condition, name))) is None:
            continue
        rows.append(
            (
                name,
                _beside(run, peer, lambda each: each.rollouts_per_s, "{:,.0f}"),
                _beside(run, peer, lambda each: each.cpu_ms_per_rollout, "{:.2f}"),
                f"{run.collections:,}",
                longest_pause(run),
                f"{run.pause_sum_ms / 1000:.2f}" if run.collections else "-",
                f"{run.lag_p99_ms:,.1f}",
                f"{run.lag_max_ms:,.0f}",
                f"{run.loop_waited:.0%}",
                f"{run.machine_stolen:.1%}",
                _beside(run, peer, lambda each: each.peak_rss_mb, "{:,.0f}"),
                f"{min(outcome.rows for outcome in outcomes[condition, name]):,}",
            )
        )
    return table(headings, rows)


def marks(outcomes: Mapping[tuple[str, str], Sequence[Outcome]], longer: Outcome | None) -> list[Mark]:
    """What ours must reach, as far as these runs can tell. `longer` is a run of ours with more rollouts."""
    of = medians(outcomes)
    judged = [
        goal.judge(of[goal.condition, OURS], of.get((goal.condition, PEER_TUNED)))
        for goal in GOALS
        if (goal.condition, OURS) in of
    ]
    found = [mark for mark in judged if mark is not None]
    for (condition, name), each in outcomes.items():
        if name == OURS:
            owed, rows = each[0].figures.rollouts, min(outcome.rows for outcome in each)
            found.append(Mark(f"{condition}: every rollout has its row on disk", f"{rows:,} of {owed:,}", rows == owed))
    if longer is not None and (SATURATED, OURS) in of:
        before, after = of[SATURATED, OURS].peak_rss_mb, longer.figures.peak_rss_mb
        what = f"peak memory at {longer.figures.rollouts:,} rollouts within {MEMORY_MARGIN:.0%}"
        found.append(Mark(what, f"{before:,.0f} and {after:,.0f} MB", abs(after - before) <= MEMORY_MARGIN * before))
    return found


def _beside(run: RunFigures, peer: RunFigures | None, figure: Callable[[RunFigures], float], form: str) -> str:
    told = form.format(figure(run))
    if peer is None or run.name == PEER_TUNED or not figure(peer):
        return told
    return f"{told} ({figure(run) / figure(peer):.2f} ×)"
