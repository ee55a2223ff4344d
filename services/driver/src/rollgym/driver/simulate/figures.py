"""From what was seen of a run to the figures of its row: everything between the first dispatch and the end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

BUCKET_S = 0.1
STEADY = (0.2, 0.8)
"""The steady rate is over the middle of a run: between these shares of its answers."""


@dataclass(frozen=True)
class Generation:
    """Collections of one generation: how many, the sum and the longest of their pauses."""

    collections: int
    pause_sum_ms: float
    pause_max_ms: float


@dataclass(frozen=True)
class RunFigures:
    """One run. Lag, pauses and CPU are the driver's, from the first dispatch to the end of its event loop."""

    name: str
    round: int
    concurrency: int
    rollouts: int
    elapsed_s: float
    rollouts_per_s: float
    steady_rollouts_per_s: float
    generations: tuple[Generation, ...]
    lag_mean_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    cpu_ms_per_rollout: float
    peak_rss_mb: float
    loop_busy: float
    """Share of the time between first dispatch and last answer in which the driver's loop thread used a CPU."""
    loop_waited: float
    """Share of it in which that thread could have run, but others had every CPU: lag that is not the driver's own."""
    servers_busy: dict[str, float] = field(default_factory=dict)
    """The same of each server's process."""
    machine_busy: float = 0.0
    """Share of the machine's CPUs that was busy."""
    machine_stolen: float = 0.0
    """Share of them that a virtual machine's host gave to others: lag, pauses and CPU times grow with it."""
    gc_thresholds: tuple[int, ...] = ()
    gc_frozen_objects: int = 0
    peak_in_flight: int = 0
    late_max_s: float | None = None
    """Open loop: how long the latest rollout came after its time. None in a closed loop."""
    model_calls: int = 0
    disagreements: tuple[str, ...] = ()

    @property
    def collections(self) -> int:
        return sum(generation.collections for generation in self.generations)

    @property
    def pause_sum_ms(self) -> float:
        return sum(generation.pause_sum_ms for generation in self.generations)

    @property
    def pause_max_ms(self) -> float | None:
        """None where nothing was collected."""
        return max((each.pause_max_ms for each in self.generations if each.collections), default=None)


@dataclass(frozen=True)
class Window:
    """The part of a run that counts, in the probe's seconds: first dispatch, last answer, end of the loop."""

    began_s: float
    answered_s: float
    ended_s: float

    @classmethod
    def of(cls, seen: dict[str, Any], first_at: float, last_at: float) -> Window:
        """`first_at` and `last_at` are the machine's clock, as the servers saw it."""
        zero = seen["started_at"]
        return cls(first_at - zero, last_at - zero, seen["main_ended_s"])


def lag_ms(seen: dict[str, Any], window: Window) -> list[float]:
    """Lags in the window, in order of time."""
    at_s, lag_s = seen["lag"]["at_s"], seen["lag"]["lag_s"]
    first, last = bisect_left(at_s, window.began_s), bisect_right(at_s, window.ended_s)
    return [1000 * value for value in lag_s[first:last]]


def pauses(seen: dict[str, Any], window: Window) -> list[tuple[float, int, float]]:
    """Collections in the window: (seconds after its begin, generation, pause in ms)."""
    records = seen["collections"]
    return [
        (at_s - window.began_s, generation, 1000 * pause_s)
        for at_s, generation, pause_s in zip(records["at_s"], records["generation"], records["pause_s"], strict=True)
        if window.began_s <= at_s <= window.ended_s
    ]


def generations(collections: Sequence[tuple[float, int, float]]) -> tuple[Generation, ...]:
    """Totals of generations 0, 1 and 2."""
    by_generation = [[pause for _, each, pause in collections if each == number] for number in range(3)]
    return tuple(Generation(len(each), sum(each), max(each, default=0.0)) for each in by_generation)


def clock_between(seen: dict[str, Any], clock: str, began_s: float, ended_s: float) -> float:
    """How far one of the probe's clocks went between two times, interpolated between its readings."""
    at_s, values = seen["clocks"]["at_s"], seen["clocks"][clock]
    return interpolated(at_s, values, ended_s) - interpolated(at_s, values, began_s)


def interpolated(at_s: Sequence[float], values: Sequence[float], when_s: float) -> float:
    """The value at a time between readings, which are in order of time; at most the last reading."""
    after = bisect_left(at_s, when_s)
    if after == 0:
        return values[0]
    if after == len(at_s):
        return values[-1]
    share = (when_s - at_s[after - 1]) / (at_s[after] - at_s[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile by linear interpolation; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def steady_rate(answered_at: Sequence[float]) -> float:
    """Answers a second over the middle of a run; 0 where there are too few to tell."""
    ordered = sorted(answered_at)
    first, last = (int(share * (len(ordered) - 1)) for share in STEADY)
    span_s = ordered[last] - ordered[first] if ordered else 0.0
    return (last - first) / span_s if span_s > 0 else 0.0


def lag_series(seen: dict[str, Any], window: Window) -> list[tuple[float, float]]:
    """(seconds after the window's begin, longest lag in ms) of every tenth of a second."""
    buckets: dict[int, float] = {}
    for at_s, value in zip(seen["lag"]["at_s"], seen["lag"]["lag_s"], strict=True):
        if window.began_s <= at_s <= window.ended_s:
            bucket = int((at_s - window.began_s) / BUCKET_S)
            buckets[bucket] = max(buckets.get(bucket, 0.0), 1000 * value)
    return [(round(bucket * BUCKET_S, 3), round(value, 3)) for bucket, value in sorted(buckets.items())]
