"""The run seen repeat by repeat: each rollout index over all tasks, and how much the repeats differ.

Keys and definitions are those of NeMo Gym's `repeat_level_metrics` and its `<stat>_across_repeats/<metric>`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from rollgym.driver.evals.describe import Description, describe, finite_only, interval_95
from rollgym.driver.evals.numbers_table import NumbersTable
from rollgym.driver.evals.shards import ROLLOUT_INDEX

_NO_POINT_ESTIMATE = (
    *(f"/{name}" for name in ("max", "min", "median", "p5", "p25", "p75", "p95", "ci_low_95", "ci_high_95")),
    *("/ci_lower", "/ci_upper", "_ci_lower", "_ci_upper", "_ci95_lower", "_ci95_upper", "/_ng_attempt_index"),
    *("/std_dev_across_runs", "/std_err_across_runs", "/avg_sample_std_dev"),
)
"""Endings of field names that are statistics themselves; statistics over statistics are left out."""


def repeat_metrics(numbers: NumbersTable, tasks: Sequence[int], rollouts: Sequence[int]) -> list[dict[str, Any]]:
    """One entry per rollout index, over its tasks; none where there is only one index. Rows as in `numbers`."""
    rows_of: dict[int, array[int]] = {}
    for row, rollout in enumerate(rollouts):
        rows_of.setdefault(rollout, array("Q")).append(row)
    if len(rows_of) < 2:
        return []
    all_tasks = len(set(tasks))
    entries = []
    for rollout in sorted(rows_of):
        present = len({tasks[row] for row in rows_of[rollout]})
        entry = {ROLLOUT_INDEX: rollout, "sample_count": present, "missing_count": all_tasks - present}
        columns = {name: describe(values) for name, values in sorted(numbers.columns(rows_of[rollout]).items())}
        entries.append(entry | finite_only(_of_repeat(columns)))
    return entries


def _of_repeat(columns: Mapping[str, Description]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, column in columns.items():
        std = column.std or 0.0
        error = std / math.sqrt(column.count)
        found |= {
            f"mean/{name}": column.mean,
            f"median/{name}": column.median,
            f"std/{name}": std,
            f"sem/{name}": error,
            f"min/{name}": column.least,
            f"max/{name}": column.most,
            f"p25/{name}": column.p25,
            f"p75/{name}": column.p75,
        }
        found |= _interval(column, error, "ci_low_95/" + name, "ci_high_95/" + name)
    return found


def across_repeats(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each repeat's mean taken as one observation: mean, spread, standard error and interval across the repeats."""
    found: dict[str, float] = {}
    names = dict.fromkeys(name for entry in entries for name in entry)
    for name in names:
        if not name.startswith("mean/") or name.endswith(_NO_POINT_ESTIMATE):
            continue
        column = describe([entry[name] for entry in entries if name in entry])
        std = column.std or 0.0
        error = std / math.sqrt(column.count)
        found |= {
            f"mean_across_repeats/{name}": column.mean,
            f"median_across_repeats/{name}": column.median,
            f"std_across_repeats/{name}": std,
            f"min_across_repeats/{name}": column.least,
            f"max_across_repeats/{name}": column.most,
            f"se_across_repeats/{name}": error,
        }
        found |= _interval(column, error, f"ci_low_95_across_repeats/{name}", f"ci_high_95_across_repeats/{name}")
    return finite_only(found)


def _interval(column: Description, error: float, low: str, high: str) -> dict[str, float]:
    interval = interval_95(column.mean, error, column.count)
    return {} if interval is None else {low: interval[0], high: interval[1]}
