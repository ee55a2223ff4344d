"""Two runs over the same tasks: the paired difference, with what it is over and what it leaves out.

The unit is the task: each contributes the difference B - A of its two means, and all count alike. The interval is
Student's over those differences, which takes the tasks as a sample of tasks. Tasks are paired by what they are (a
digest of environment, seed, reset and prompt) where both runs have their materialized inputs, else by task index.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rollgym.common.errors import ConfigurationError
from rollgym.common.suggestions import did_you_mean
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import RunAggregate, aggregate
from rollgym.driver.evals.describe import Description, describe, interval_95, total
from rollgym.driver.evals.perf_summary import perf_numbers
from rollgym.driver.evals.shards import Row
from rollgym.driver.evals.task_identity import TaskIdentity, task_identities
from rollgym.driver.student_t import student_t

REWARD = "reward"
LATENCY = "latency_ms"


@dataclass(frozen=True, slots=True)
class PairedTask:
    """One task in both runs. `interval` is Welch's for its difference, None where a side has one value."""

    task_a: int
    task_b: int
    label: str
    a: Description
    b: Description

    @property
    def difference(self) -> float:
        return self.b.mean - self.a.mean

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.a.std is None or self.b.std is None:
            return None
        parts = [side.std * side.std / side.count for side in (self.a, self.b) if side.std is not None]
        variance = sum(parts)
        if variance == 0:
            return self.difference, self.difference
        spread = sum(part**2 / (side.count - 1) for part, side in zip(parts, (self.a, self.b), strict=True))
        degrees = max(1, int(variance**2 / spread))
        half = student_t(0.975, degrees) * math.sqrt(variance)
        return self.difference - half, self.difference + half


@dataclass
class Side:
    """One run: its values of the metric by task, over the scored rollouts that have it."""

    run: ArtifactPaths
    aggregate: RunAggregate
    values: dict[int, array[float]] = field(default_factory=dict)
    owed: set[int] = field(default_factory=set)

    def overall(self) -> Description | None:
        everything = [value for values in self.values.values() for value in values]
        return describe(everything) if everything else None


@dataclass
class Comparison:
    """`pairs` have values on both sides; the other lists say which tasks could not be paired, and why."""

    metric: str
    a: Side
    b: Side
    pairs: list[PairedTask]
    by_content: bool
    only_a: list[int] = field(default_factory=list)
    """Task indices that only run A has; `only_b` likewise."""
    only_b: list[int] = field(default_factory=list)
    without_value: list[tuple[int, int]] = field(default_factory=list)
    """Tasks of both runs (index in A, in B) that lack a value on a side."""
    remarks: list[str] = field(default_factory=list)

    @property
    def difference(self) -> float | None:
        return total(pair.difference for pair in self.pairs) / len(self.pairs) if self.pairs else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the mean difference, None for fewer than two pairs."""
        if len(self.pairs) < 2:
            return None
        column = describe([pair.difference for pair in self.pairs])
        return interval_95(column.mean, (column.std or 0.0) / math.sqrt(column.count), column.count)

    def signs(self) -> dict[str, int]:
        """In how many tasks B is higher, lower, or the same."""
        differences = [pair.difference for pair in self.pairs]
        higher, lower = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
        return {"higher": higher, "lower": lower, "same": len(differences) - higher - lower}

    def to_json(self) -> dict[str, Any]:
        interval = self.interval
        return {
            "metric": self.metric,
            "paired_by": "content" if self.by_content else "task index",
            "difference": self.difference,
            "interval_95": None if interval is None else list(interval),
            "tasks": {
                "paired": len(self.pairs),
                "only_a": self.only_a,
                "only_b": self.only_b,
                "without_value": [list(pair) for pair in self.without_value],
                **{f"b_{name}": count for name, count in self.signs().items()},
            },
            "a": _side_json(self.a, [pair.a.mean for pair in self.pairs]),
            "b": _side_json(self.b, [pair.b.mean for pair in self.pairs]),
            "remarks": self.remarks,
            "pairs": [
                {
                    "task_a": pair.task_a,
                    "task_b": pair.task_b,
                    "label": pair.label,
                    "a": {"mean": pair.a.mean, "rollouts": pair.a.count},
                    "b": {"mean": pair.b.mean, "rollouts": pair.b.count},
                    "difference": pair.difference,
                    "interval_95": None if pair.interval is None else list(pair.interval),
                }
                for pair in self.pairs
            ],
        }


def _side_json(side: Side, paired: Sequence[float]) -> dict[str, Any]:
    overall = side.overall()
    return {
        "results": str(side.run.results),
        "coverage": side.aggregate.coverage(),
        "mean_over_pairs": total(paired) / len(paired) if paired else None,
        "mean_over_all": overall.mean if overall else None,
        "rollouts": overall.count if overall else 0,
    }


def compare_runs(a: ArtifactPaths, b: ArtifactPaths, *, metric: str = REWARD, agent: str | None = None) -> Comparison:
    """Compare run B with run A. Blocks. Raises ConfigurationError for a metric that no row has."""
    sides = [_side(run, metric, agent) for run in (a, b)]
    identities = [task_identities(run) for run in (a, b)]
    by_content = all(identities)
    names = [_names(side, found if by_content else {}) for side, found in zip(sides, identities, strict=True)]
    comparison = Comparison(metric, sides[0], sides[1], [], by_content)
    _pair(comparison, names[0], names[1])
    comparison.remarks += _remarks(comparison)
    return comparison


def _side(run: ArtifactPaths, metric: str, agent: str | None) -> Side:
    values: dict[int, array[float]] = {}
    seen: set[str] = {REWARD, LATENCY}
    agents: set[str] = set()

    def add(row: Row) -> None:
        agents.add(row.facts.agent)
        if row.facts.masked or (agent is not None and row.facts.agent != agent):
            return
        numbers = _numbers(row)
        if len(seen) < 1000:
            seen.update(numbers)
        if metric in numbers:
            values.setdefault(row.key[0], array("d")).append(numbers[metric])

    found = aggregate([run], on_duplicate="first", on_row=add)
    if agent is not None and agent not in found.agents:
        raise ConfigurationError(
            f"--agent {agent}: {run.results} has none of that name{did_you_mean(agent, set(found.agents))}"
        )
    if not values and metric not in seen and agents:
        raise ConfigurationError(f"--metric {metric}: no row of {run.results} has it{did_you_mean(metric, seen)}")
    chosen = [each for name, each in found.agents.items() if agent in (None, name)]
    return Side(run, found, values, {task for each in chosen for task in each.owed_by_task})


def _numbers(row: Row) -> dict[str, float]:
    numbers = perf_numbers(row.facts.perf) | row.payload.numbers()
    if row.facts.reward is not None:
        numbers[REWARD] = row.facts.reward
    if row.latency_ms is not None:
        numbers[LATENCY] = row.latency_ms
    return numbers


def _names(side: Side, identities: dict[int, TaskIdentity]) -> dict[TaskIdentity, int]:
    """Task indices by what the tasks are called on both sides."""
    return {identities.get(task, TaskIdentity(str(task), 0)): task for task in sorted(side.owed | side.values.keys())}


def _pair(comparison: Comparison, in_a: dict[TaskIdentity, int], in_b: dict[TaskIdentity, int]) -> None:
    a, b = comparison.a, comparison.b
    for identity, task_a in in_a.items():
        if identity not in in_b:
            comparison.only_a.append(task_a)
            continue
        task_b = in_b[identity]
        values_a, values_b = a.values.get(task_a), b.values.get(task_b)
        if not values_a or not values_b:
            comparison.without_value.append((task_a, task_b))
            continue
        label = a.aggregate.labels.get(task_a) or b.aggregate.labels.get(task_b, "")
        comparison.pairs.append(PairedTask(task_a, task_b, label, describe(values_a), describe(values_b)))
    comparison.only_b = [task for identity, task in in_b.items() if identity not in in_a]


def _remarks(comparison: Comparison) -> list[str]:
    remarks = [f"A: {remark}" for remark in comparison.a.aggregate.remarks]
    remarks += [f"B: {remark}" for remark in comparison.b.aggregate.remarks]
    for name, tasks in (("A", comparison.only_a), ("B", comparison.only_b)):
        if tasks:
            remarks.append(f"{len(tasks)} task(s) are in {name} only and left out of the difference")
    if comparison.without_value:
        remarks.append(
            f"{len(comparison.without_value)} task(s) are in both but lack a scored rollout in one, and are left out: "
            "where the harder ones fail, the difference is over the easier rest"
        )
    uneven = sum(pair.a.count != pair.b.count for pair in comparison.pairs)
    if uneven:
        remarks.append(f"{uneven} pair(s) have different numbers of rollouts; each task counts once all the same")
    if not comparison.by_content and comparison.pairs:
        remarks.append("paired by task index: without both materialized inputs, nobody checked that they are the same")
    return remarks
