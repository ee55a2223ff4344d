"""Means and their 95% intervals, where the rollouts of one task are not independent of each other.

The interval is the cluster-robust one: with N rewards r in T tasks, mean m and per-task sums s_t over n_t rewards,

    SE² = T / (T - 1) · Σ_t (s_t - n_t · m)² / N²

and the half width is SE times Student's t at T - 1 degrees of freedom. With one rollout a task this is the ordinary
standard error of the mean. (Liang & Zeger 1986; for evals: Miller 2024, "Adding Error Bars to Evals".)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rollgym.driver.student_t import student_t


@dataclass
class ClusteredMean:
    """A running mean over values that belong to tasks. Two numbers a task are kept, nothing per rollout."""

    count: int = 0
    total: float = 0.0
    square_total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    _tasks: dict[int, tuple[int, float]] = field(default_factory=dict)

    def add(self, task: int, value: float) -> None:
        self.count += 1
        self.total += value
        self.square_total += value * value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        number, total = self._tasks.get(task, (0, 0.0))
        self._tasks[task] = (number + 1, total + value)

    @property
    def tasks(self) -> int:
        return len(self._tasks)

    @property
    def mean(self) -> float | None:
        """None while empty, and where the sum is beyond what a float holds."""
        return _finite(self.total / self.count) if self.count else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the values, None for fewer than two."""
        if self.count < 2:
            return None
        squares = self.square_total - self.total * self.total / self.count
        return None if math.isnan(squares) else _finite(math.sqrt(max(0.0, squares) / (self.count - 1)))

    def standard_error(self) -> float | None:
        """Cluster-robust standard error of the mean, None for fewer than two tasks."""
        mean, tasks = self.mean, self.tasks
        if mean is None or tasks < 2:
            return None
        apart = [total - number * mean for number, total in self._tasks.values()]
        return _finite(math.sqrt(tasks / (tasks - 1) * sum(each * each for each in apart)) / self.count)

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """The two-sided interval of the mean, None for fewer than two tasks."""
        mean, error = self.mean, self.standard_error()
        if mean is None or error is None:
            return None
        half = student_t((1 + level) / 2, self.tasks - 1) * error
        return mean - half, mean + half


def _finite(value: float) -> float | None:
    """The value, None where it overflowed: rewards may be of any finite size, JSON has no word for infinity."""
    return value if math.isfinite(value) else None
