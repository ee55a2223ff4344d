"""The aggregate of one agent's rollouts: fed row by row in key order, asked for its entry in the aggregate file.

Keys that NeMo Gym's aggregate files have mean what they mean there; the others are ours (docs/metrics.md).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rollgym.driver.evals.describe import describe, finite_only, mean_json, quantiles_json
from rollgym.driver.evals.numbers_table import Columns, NumbersTable
from rollgym.driver.evals.owed import FailedTokens, State
from rollgym.driver.evals.pass_at_k import curve, pass_metrics
from rollgym.driver.evals.perf_summary import perf_numbers, perf_summary
from rollgym.driver.evals.repeats import across_repeats, repeat_metrics
from rollgym.driver.evals.shards import ROLLOUT_INDEX, TASK_INDEX, Row
from rollgym.driver.intervals import ClusteredMean
from rollgym.driver.materialized import Key
from rollgym.driver.payloads import TIMINGS_KEY
from rollgym.driver.statistics import RunStatistics

STATES: tuple[State, ...] = ("failed", "drained", "cancelled", "missing")
_TIMINGS = ("admission_wait_ms", "session_wait_ms", "active_ms")


@dataclass
class AgentAggregate:
    """Numbers of one agent's rollouts. Rows come in order of task and rollout."""

    name: str
    statistics: RunStatistics = field(default_factory=RunStatistics)
    numbers: NumbersTable = field(default_factory=NumbersTable)
    """Of scored rollouts, and of those counted as zero."""
    tasks: array[int] = field(default_factory=lambda: array("q"))
    rollouts: array[int] = field(default_factory=lambda: array("q"))
    perf: NumbersTable = field(default_factory=NumbersTable)
    timings: NumbersTable = field(default_factory=NumbersTable)
    all_rewards: ClusteredMean = field(default_factory=ClusteredMean)
    """Masked placeholders included: shown beside the headline where something is masked, never in its place."""
    states: Counter[State] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    failed_tokens: FailedTokens = field(default_factory=FailedTokens)
    counted_as_zero: int = 0
    owed_by_task: Counter[int] = field(default_factory=Counter)
    """Every rollout that was owed, by task; those with a row are among them."""
    masked_by_task: Counter[int] = field(default_factory=Counter)
    _indices: set[int] = field(default_factory=set)

    @property
    def masked(self) -> int:
        return self.statistics.masked_kinds.total()

    @property
    def scored(self) -> int:
        """Rollouts with a reward that is a measurement."""
        return len(self.tasks) - self.counted_as_zero

    def add(self, row: Row) -> None:
        """A row of the results."""
        task, rollout = row.key
        facts = row.facts
        self.owed_by_task[task] += 1
        self._indices.add(rollout)
        self.statistics.add_row(row.key, facts)
        self.perf.append(perf_numbers(facts.perf))
        self.timings.append(_timings(row.payload.value(TIMINGS_KEY)))
        if facts.reward is not None:
            self.all_rewards.add(task, facts.reward)
        if facts.masked or facts.reward is None:
            self.masked_by_task[task] += 1
            return
        self._score(row.key, {**row.payload.numbers(), "reward": facts.reward})

    def add_zero(self, key: Key) -> None:
        """A rollout without a row that is to count as zero."""
        self.counted_as_zero += 1
        self._indices.add(key[1])
        self.statistics.rewards.add(key[0], 0.0)
        self.all_rewards.add(key[0], 0.0)
        self._score(key, {"reward": 0.0})

    def add_unfinished(self, task: int, state: State, failure_class: str | None) -> None:
        """A rollout without a row, whether or not it counts as zero."""
        self.owed_by_task[task] += 1
        self.states[state] += 1
        if failure_class is not None:
            self.failures[failure_class] += 1

    def _score(self, key: Key, numbers: dict[str, float]) -> None:
        self.tasks.append(key[0])
        self.rollouts.append(key[1])
        self.numbers.append(numbers)

    def coverage(self) -> dict[str, int]:
        """How many rollouts were expected, and where each of them stands; what counts as zero is named apart."""
        counted: dict[str, int] = {state: self.states[state] for state in STATES}
        found = {
            "expected": self.scored + self.masked + sum(counted.values()),
            "scored": self.scored,
            "masked": self.masked,
            **counted,
        }
        return found | ({"counted_as_zero": self.counted_as_zero} if self.counted_as_zero else {})

    def entry(self) -> dict[str, Any]:
        """This agent's entry of the aggregate file, but for `group_level_metrics`."""
        repeats = repeat_metrics(self.numbers, self.tasks, self.rollouts)
        metrics = self._agent_metrics(repeats)
        statistics = self.statistics
        entry: dict[str, Any] = {
            "agent_ref": {"name": self.name},
            "coverage": self.coverage(),
            "reward": mean_json(statistics.rewards),
        }
        if self.masked:
            entry["reward_series"] = {"unmasked": entry["reward"], "all": mean_json(self.all_rewards)}
        entry |= {
            "reward_by_tag": [
                {"tag": name, "value": value, **mean_json(mean)} for name, value, mean in statistics.tag_rows()
            ],
            "best_of_k": curve(self.task_rewards()),
            "failures": dict(self.failures),
            "masked_by_kind": dict(statistics.masked_kinds),
            "scored_with_failure_kind": dict(statistics.scored_with_failure),
            "truncated": statistics.truncated,
            "never_ran": {"count": statistics.never_ran, "first_keys": statistics.never_ran_keys},
            "tokens": {
                kind: {"total": each.total, "reported_by": each.rollouts, "of": statistics.rows}
                for kind, each in statistics.tokens.items()
                if each.rollouts
            },
            "tokens_of_failed_attempts": self.failed_tokens.to_json(),
            "timings": {name: quantiles_json(values) for name, values in self.timings.columns().items()},
            "agent_metrics": metrics,
            "key_metrics": {name: value for name, value in metrics.items() if name.startswith(("mean/", "coverage/"))},
            "repeat_level_metrics": repeats,
        }
        summary = perf_summary(self.perf, statistics.rows_with_perf, statistics.rows)
        return entry if summary is None else entry | {"perf_summary": summary}

    def _agent_metrics(self, repeats: list[dict[str, Any]]) -> dict[str, Any]:
        metrics: dict[str, Any] = dict(self._mask_coverage())
        if len(self.tasks):
            metrics |= column_metrics(self.numbers.columns(), len(self.tasks))
            metrics |= across_repeats(repeats)
            metrics |= pass_metrics(self.task_rewards())
            metrics["num_repeats"] = len(self._indices)
        return metrics

    def _mask_coverage(self) -> dict[str, int]:
        """NeMo Gym's coverage keys, which it has only where something is masked."""
        if not self.masked:
            return {}
        measured = set(self.tasks)
        return {
            "coverage/measured_rollouts": len(self.tasks),
            "coverage/masked_rollouts": self.masked,
            "coverage/measured_tasks": len(measured),
            "coverage/fully_masked_tasks": len(self.masked_by_task.keys() - measured),
        }

    def task_rows(self) -> Iterator[tuple[int, range]]:
        """Tasks with a score, in order, and which rows of `numbers` are theirs."""
        begin = 0
        for task, rows in groupby(self.tasks):
            end = begin + sum(1 for _ in rows)
            yield task, range(begin, end)
            begin = end

    def task_rewards(self) -> list[array[float]]:
        """Rewards task by task, each in the order of rollout indices."""
        rewards = self.numbers.column("reward")
        return [rewards[rows.start : rows.stop] for _, rows in self.task_rows()]

    def groups(self) -> Iterator[dict[str, Any]]:
        """`group_level_metrics`, one per task in order; a task that never scored has null for its mean."""
        scored = dict(self.task_rows())
        for task in sorted(self.owed_by_task.keys() | scored.keys()):
            rows = scored.get(task)
            owed = self.owed_by_task[task] - self.masked_by_task[task]
            count = len(rows) if rows else 0
            group: dict[str, Any] = {TASK_INDEX: task, "mean/reward": None}
            if rows:
                group |= column_metrics(self.numbers.columns(rows), count)
            group |= {
                "sample": {"agent_ref": {"name": self.name}},
                "num_rollouts": count,
                "expected_num_rollouts": owed,
                "missing_num_rollouts": owed - count,
                "masked_num_rollouts": self.masked_by_task[task],
                "reward_profile_completion_pct": 100.0 * count / owed if owed else 100.0,
                "rollout_infos": [self._info(task, row) for row in rows or ()],
            }
            yield group

    def _info(self, task: int, row: int) -> dict[str, Any]:
        rollout = self.rollouts[row]
        identity = {"rollout_id": f"{task}:{rollout}", TASK_INDEX: task, ROLLOUT_INDEX: rollout}
        return identity | self.numbers.row(row)


def column_metrics(columns: Columns, rows: int) -> dict[str, float]:
    """`mean/`, `max/`, `min/`, `median/` and `std/` of each column over `rows` rows.

    A standard deviation of one value is none and left out; where that holds for every column it is given as 0, for
    the columns in which no row lacks a value. (So NeMo Gym has it.)
    """
    described = {name: describe(values) for name, values in columns.items()}
    no_std = all(column.std is None for column in described.values())
    metrics: dict[str, float] = {}
    for name, column in described.items():
        metrics |= {
            f"mean/{name}": column.mean,
            f"max/{name}": column.most,
            f"min/{name}": column.least,
            f"median/{name}": column.median,
        }
        std = 0.0 if no_std and column.count == rows else column.std
        if std is not None:
            metrics[f"std/{name}"] = std
    return finite_only(metrics)


def _timings(timings: Any) -> dict[str, float]:
    """The parts of a rollout's time that are known, and their sum."""
    if not isinstance(timings, dict):
        return {}
    found = {name: float(timings[name]) for name in _TIMINGS if isinstance(timings.get(name), int | float)}
    return found | {"total_ms": sum(found.values())} if found else {}
