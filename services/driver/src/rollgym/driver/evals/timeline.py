"""A run over time, from its journal and its samples, in at most sixty steps.

Time is time in which a driver ran: what lies between the end of one start of the run and the next start is cut out.
"""

from __future__ import annotations

import bisect
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rollgym.driver.artifacts.journal import JournalLine
from rollgym.driver.artifacts.lines import read_lines
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.describe import quantile
from rollgym.driver.evals.owed import journal_lines
from rollgym.driver.materialized import Key
from rollgym.driver.run_samples import Sample

MOST_STEPS = 60
_FEWEST_STEPS = 6
_ENDED_PER_STEP = 20
_STARTS = ("started", "resumed")
_ROWS = ("succeeded", "masked")
_ENDS = (*_ROWS, "failed", "cancelled")

_sample_decoder = msgspec.json.Decoder(Sample)


@dataclass
class Step:
    """What happened in one stretch of a run. Times are in seconds from its first start; None where nothing was seen."""

    begin_s: float
    width_s: float
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    """Dispatch to end of the attempts that gave a row in this step."""
    failures: Counter[str] = field(default_factory=Counter)
    """Failed attempts by class."""
    in_flight_s: float = 0.0
    lag_max_ms: float | None = None
    gc_pause_max_ms: float | None = None

    @property
    def middle_s(self) -> float:
        return self.begin_s + self.width_s / 2

    @property
    def rollouts_per_hour(self) -> float:
        return len(self.latencies_s) / self.width_s * 3600

    @property
    def in_flight(self) -> float:
        """The mean over the step."""
        return self.in_flight_s / self.width_s

    def latency_s(self, q: float) -> float | None:
        return quantile(sorted(self.latencies_s), q) if self.latencies_s else None


@dataclass
class Timeline:
    """Steps of equal width. `resumed_s` are the times at which the run was started again."""

    steps: list[Step] = field(default_factory=list)
    resumed_s: list[float] = field(default_factory=list)
    length_s: float = 0.0
    ended: int = 0
    samples: int = 0

    def step_at(self, at_s: float) -> Step:
        return self.steps[self.position_at(at_s)]

    def position_at(self, at_s: float) -> int:
        position = int(at_s / self.length_s * len(self.steps)) if self.length_s else 0
        return min(max(position, 0), len(self.steps) - 1)

    def failure_classes(self) -> list[str]:
        """Most frequent first."""
        total: Counter[str] = Counter()
        for step in self.steps:
            total += step.failures
        return [name for name, _ in total.most_common()]


class _Clock:
    """Seconds of running time for a time of day: pauses between a run's starts are taken out."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._paused: list[float] = []
        self._last = 0.0

    def see(self, line: JournalLine) -> None:
        if not self._starts:
            self._starts, self._paused = [line.at], [line.at]
        elif line.event in _STARTS:
            self._starts.append(line.at)
            self._paused.append(self._paused[-1] + max(0.0, line.at - self._last))
        self._last = max(self._last, line.at)

    def seconds(self, at: float) -> float:
        if not self._starts:
            return 0.0
        return max(0.0, at - self._paused[max(0, bisect.bisect_right(self._starts, at) - 1)])

    @property
    def length_s(self) -> float:
        return self.seconds(self._last)

    def resumed_s(self) -> list[float]:
        return [self.seconds(start) for start in self._starts[1:]]


def read_timeline(run: ArtifactPaths) -> Timeline:
    """Read journal and samples of a run; no steps where it has no journal. Blocks."""
    clock, ended = _Clock(), 0
    for line in journal_lines(run.journal):
        clock.see(line)
        ended += line.event in _ROWS
    if clock.length_s <= 0:
        return Timeline()
    count = min(MOST_STEPS, max(_FEWEST_STEPS, ended // _ENDED_PER_STEP))
    width = clock.length_s / count
    timeline = Timeline([Step(at * width, width) for at in range(count)], clock.resumed_s(), clock.length_s, ended)
    _fill(timeline, clock, run.journal)
    for sample in _samples(run.samples):
        timeline.samples += 1
        step = timeline.step_at(clock.seconds(sample.at))
        step.lag_max_ms = max(step.lag_max_ms or 0.0, sample.lag_max_ms)
        step.gc_pause_max_ms = max(step.gc_pause_max_ms or 0.0, sample.gc_pause_max_ms)
    return timeline


def _fill(timeline: Timeline, clock: _Clock, journal: Path) -> None:
    running: set[Key] = set()
    since_s = 0.0
    for line in journal_lines(journal):
        at_s = clock.seconds(line.at)
        _spread(timeline, since_s, at_s, len(running))
        since_s = max(since_s, at_s)
        if line.event == "resumed":
            running.clear()  # what an earlier driver left in flight died with it
        if line.task is None or line.rollout is None:
            continue
        key = (line.task, line.rollout)
        if line.event == "dispatched":
            running.add(key)
        elif line.event in _ENDS:
            running.discard(key)
        step = timeline.step_at(at_s)
        if line.event in _ROWS and line.seconds is not None:
            step.latencies_s.append(line.seconds)
        elif line.event == "failed":
            step.failures[line.failure_class or "unknown"] += 1


def _spread(timeline: Timeline, begin_s: float, end_s: float, running: int) -> None:
    """Add `running` rollouts over a stretch of time to the steps that it covers."""
    position = timeline.position_at(begin_s)
    while running and begin_s < end_s:
        step = timeline.steps[position]
        last = position == len(timeline.steps) - 1
        until_s = end_s if last else min(end_s, step.begin_s + step.width_s)
        if until_s > begin_s:
            step.in_flight_s += running * (until_s - begin_s)
            begin_s = until_s
        position += not last


def _samples(path: Path) -> Iterator[Sample]:
    for line in read_lines(path) if path.exists() else ():
        try:
            yield _sample_decoder.decode(line.content)
        except msgspec.DecodeError:
            continue  # a torn last line
