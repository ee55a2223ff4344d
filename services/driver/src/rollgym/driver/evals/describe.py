"""Descriptive statistics of a column of numbers, as NeMo Gym's aggregate files name and define them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rollgym.driver.intervals import ClusteredMean
from rollgym.driver.student_t import student_t


@dataclass(frozen=True, slots=True)
class Description:
    """`std` is the sample's, None for fewer than two values; quantiles interpolate linearly."""

    count: int
    mean: float
    std: float | None
    least: float
    most: float
    median: float
    p25: float
    p75: float


def describe(values: Sequence[float]) -> Description:
    """Describe at least one value. What overflows is infinite or not a number."""
    ordered = sorted(values)
    count = len(ordered)
    mean = total(ordered) / count
    std = math.sqrt(square_total(ordered, mean) / (count - 1)) if count > 1 else None
    return Description(
        count=count,
        mean=mean,
        std=std,
        least=ordered[0],
        most=ordered[-1],
        median=quantile(ordered, 0.5),
        p25=quantile(ordered, 0.25),
        p75=quantile(ordered, 0.75),
    )


def total(values: Iterable[float]) -> float:
    """The exact sum, rounded once; infinite where it is beyond what a float holds."""
    kept = list(values)
    try:
        return math.fsum(kept)
    except OverflowError:
        return sum(kept)


def square_total(values: Iterable[float], mean: float) -> float:
    """The sum of squared distances from the mean."""
    apart = (value - mean for value in values)
    return total(distance * distance for distance in apart)


def finite_only(metrics: dict[str, float]) -> dict[str, float]:
    """Metrics without those that overflowed: rewards may be of any finite size, JSON has no word for infinity."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of at least one ordered value, by linear interpolation between neighbours."""
    position = (len(ordered) - 1) * q
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def interval_95(mean: float, standard_error: float, count: int) -> tuple[float, float] | None:
    """Student's interval of a mean over `count` independent values, None for fewer than two."""
    if count < 2:
        return None
    half = student_t(0.975, count - 1) * standard_error
    return mean - half, mean + half


def mean_json(mean: ClusteredMean) -> dict[str, Any]:
    """A mean with what it is over; the interval treats the rollouts of one task as dependent."""
    interval = mean.interval()
    values: dict[str, Any] = {"rollouts": mean.count, "tasks": mean.tasks, "mean": mean.mean}
    if mean.std is not None:
        values["std"] = mean.std
    if interval is not None:
        values["interval_95"] = list(interval)
    if mean.count:
        values |= {"min": mean.least, "max": mean.most}
    return values


def quantiles_json(values: Sequence[float]) -> dict[str, float]:
    """Count, p50, p90, p99, mean and maximum; only the count where there are none."""
    if not values:
        return {"count": 0}
    ordered = sorted(values)
    values_by_name = {name: quantile(ordered, q) for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    values_by_name |= {"mean": total(ordered) / len(ordered), "max": ordered[-1]}
    return {"count": len(ordered), **finite_only(values_by_name)}
