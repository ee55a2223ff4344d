"""`/aggregate_metrics`: statistics over verify answers, read one at a time; only their numbers are kept.

Key names are NeMo Gym's: `mean/reward`, `std/reward`, `coverage/masked_rollouts`. A masked answer's numbers are no
measurements: it is counted, and stays out of every statistic.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.resources.bodies import parse
from rollgym.resources.perf_summary import perf_summary

TASK, ROLLOUT = "_ng_task_index", "_ng_rollout_index"
SKIPPED = frozenset({"mask_sample", "response", "responses_create_params", "ng_perf"})


class _Body(msgspec.Struct):
    verify_responses: list[msgspec.Raw]


class _Columns:
    """Numbers by name."""

    def __init__(self) -> None:
        self._values: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))

    def add(self, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._values[name].append(value)

    def statistics(self) -> dict[str, float]:
        """`mean/`, `max/`, `min/`, `median/` and `std/` (of a sample; 0 for one) of each name."""
        found: dict[str, float] = {}
        for name, values in self._values.items():
            found[f"mean/{name}"] = statistics.fmean(values)
            found[f"max/{name}"] = max(values)
            found[f"min/{name}"] = min(values)
            found[f"median/{name}"] = statistics.median(values)
            found[f"std/{name}"] = statistics.stdev(values) if len(values) > 1 else 0.0
        return found


def aggregate(body: bytes) -> dict[str, Any]:
    """The answer to a request's body. Raises BadRequest."""
    everything, by_task, by_repeat = _Columns(), _groups(), _groups()
    rollouts: defaultdict[int, int] = defaultdict(int)
    tasks_seen, repeats_seen, masked, total = set[int](), set[int](), 0, 0
    perf: list[Mapping[str, Any]] = []
    for raw in parse(body, _Body).verify_responses:
        answer = jsonx.loads(bytes(raw))
        if not isinstance(answer, dict):
            continue
        total += 1
        task, repeat = _index(answer, TASK), _index(answer, ROLLOUT)
        tasks_seen.add(task)
        repeats_seen.add(repeat)
        if isinstance(answer.get("ng_perf"), dict):
            perf.append(answer["ng_perf"])
        if answer.get("mask_sample"):
            masked += 1
            continue
        numbers = _numbers(answer)
        for columns in (everything, by_task[task], by_repeat[repeat]):
            columns.add(numbers)
        rollouts[task] += 1
    measured = everything.statistics()
    coverage = _coverage(total, masked, tasks_seen, set(rollouts)) if masked else {}
    agent = {**measured, **coverage, **({"num_repeats": len(repeats_seen)} if total else {})}
    answer = {
        "agent_metrics": agent,
        "key_metrics": {**{name: value for name, value in agent.items() if name.startswith("mean/")}, **coverage},
        "group_level_metrics": [
            {TASK: task, "num_rollouts": rollouts[task], **by_task[task].statistics()} for task in sorted(rollouts)
        ],
        "repeat_level_metrics": _repeats(by_repeat),
    }
    summary = perf_summary(perf, total)
    return answer if summary is None else {**answer, "perf_summary": summary}


def _groups() -> defaultdict[int, _Columns]:
    return defaultdict(_Columns)


def _repeats(by_repeat: Mapping[int, _Columns]) -> list[dict[str, Any]]:
    """One entry per repeat, where there are several."""
    if len(by_repeat) < 2:
        return []
    return [{ROLLOUT: repeat, **by_repeat[repeat].statistics()} for repeat in sorted(by_repeat)]


def _index(answer: Mapping[str, Any], name: str) -> int:
    value = answer.get(name, 0)
    return value if isinstance(value, int) else 0


def _numbers(answer: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers at an answer's top, and of its usage."""
    response = answer.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    found: dict[str, float] = {}
    for source in (answer, usage if isinstance(usage, dict) else {}):
        for name, value in source.items():
            if isinstance(value, int | float) and not name.startswith("_") and name not in SKIPPED:
                number = _float(value)
                if math.isfinite(number):
                    found[name] = number
    return found


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _coverage(total: int, masked: int, seen: set[int], measured: Iterable[int]) -> dict[str, int]:
    measured = set(measured)
    return {
        "coverage/measured_rollouts": total - masked,
        "coverage/masked_rollouts": masked,
        "coverage/measured_tasks": len(measured),
        "coverage/fully_masked_tasks": len(seen - measured),
    }
