"""A run task by task: pass rates, and which tasks are hardest, flakiest and slowest."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import RunAggregate, aggregate
from rollgym.driver.evals.describe import describe
from rollgym.driver.evals.shards import Row


@dataclass(frozen=True, slots=True)
class TaskProfile:
    """One task as one agent did it. None where nothing was scored or timed; `std` also for a single score."""

    agent: str
    task: int
    label: str
    expected: int
    scored: int
    masked: int
    passed: int
    mean: float | None
    std: float | None
    least: float | None
    most: float | None
    latency_ms: float | None
    """The median."""

    @property
    def unfinished(self) -> int:
        """Failed, drained, cancelled or missing."""
        return self.expected - self.scored - self.masked

    @property
    def pass_rate(self) -> float | None:
        return self.passed / self.scored if self.scored else None

    def to_json(self) -> dict[str, Any]:
        return {
            "_ng_task_index": self.task,
            "agent": self.agent,
            "label": self.label,
            "expected": self.expected,
            "scored": self.scored,
            "masked": self.masked,
            "unfinished": self.unfinished,
            "passed": self.passed,
            "pass_rate": self.pass_rate,
            "mean_reward": self.mean,
            "std_reward": self.std,
            "min_reward": self.least,
            "max_reward": self.most,
            "median_latency_ms": self.latency_ms,
        }


@dataclass
class RunProfile:
    """Tasks in order of agent and index. Rankings leave out tasks that lack what they rank by."""

    tasks: list[TaskProfile]
    pass_at: float
    aggregate: RunAggregate

    def hardest(self, most: int) -> list[TaskProfile]:
        """Lowest mean reward first."""
        return _ranked(self.tasks, most, lambda task: task.mean)

    def flakiest(self, most: int) -> list[TaskProfile]:
        """Those whose rollouts differ most in reward first; tasks that always score the same are not among them."""
        return _ranked(
            self.tasks, most, lambda task: None if task.std is None or task.least == task.most else -task.std
        )

    def slowest(self, most: int) -> list[TaskProfile]:
        """Highest median latency first."""
        return _ranked(self.tasks, most, lambda task: None if task.latency_ms is None else -task.latency_ms)

    def never_scored(self) -> list[TaskProfile]:
        return [task for task in self.tasks if not task.scored]


def _ranked(tasks: Iterable[TaskProfile], most: int, rank: Callable[[TaskProfile], float | None]) -> list[TaskProfile]:
    ranked = [(value, task.agent, task.task, task) for task in tasks if (value := rank(task)) is not None]
    return [task for *_, task in sorted(ranked, key=lambda item: item[:3])[:most]]


@dataclass
class _Latencies:
    by_task: dict[tuple[str, int], array[float]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        if row.latency_ms is not None:
            self.by_task.setdefault((row.facts.agent, row.key[0]), array("d")).append(row.latency_ms)

    def median(self, agent: str, task: int) -> float | None:
        values = self.by_task.get((agent, task))
        return describe(values).median if values else None


def profile(run: ArtifactPaths, *, pass_at: float = 1.0) -> RunProfile:
    """Profile a run; a rollout passed where its reward is at least `pass_at`. Blocks. Raises ConfigurationError."""
    latencies = _Latencies()
    found = aggregate([run], on_duplicate="first", on_row=latencies.add)
    tasks = []
    for name, agent in sorted(found.agents.items()):
        rewards_of = {task: rows for (task, _), rows in zip(agent.task_rows(), agent.task_rewards(), strict=True)}
        for task in sorted(agent.owed_by_task):
            rewards = rewards_of.get(task, array("d"))
            column = describe(rewards) if rewards else None
            tasks.append(
                TaskProfile(
                    agent=name,
                    task=task,
                    label=found.labels.get(task, ""),
                    expected=agent.owed_by_task[task],
                    scored=len(rewards),
                    masked=agent.masked_by_task[task],
                    passed=sum(reward >= pass_at or math.isclose(reward, pass_at) for reward in rewards),
                    mean=column.mean if column else None,
                    std=column.std if column else None,
                    least=column.least if column else None,
                    most=column.most if column else None,
                    latency_ms=latencies.median(name, task),
                )
            )
    return RunProfile(tasks, pass_at, found)
