"""`perf_summary`: what many rollouts' `ng_perf` records say together. What nobody reported has no statistic."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

TOKEN_FIELDS = ("prompt_tokens", "cached_prompt_tokens", "completion_tokens", "reasoning_tokens")


def perf_summary(records: Sequence[Mapping[str, Any]], rollouts: int) -> dict[str, float] | None:
    """The summary over `records`, out of `rollouts` in all; None where no rollout carried one."""
    if not records or rollouts <= 0:
        return None
    covered = sum(1 for value in _values(records, "token_observability_coverage") if value > 0)
    summary: dict[str, float] = {
        "overall_observability_coverage": len(records) / rollouts,
        "token_observability_coverage": covered / rollouts,
    }
    for field in TOKEN_FIELDS:
        if values := _values(records, field):
            summary[f"mean_{field}"] = statistics.fmean(values)
            summary[f"median_{field}"] = statistics.median(values)
            summary[f"total_{field}"] = sum(values)
    if turns := _values(records, "num_turns"):
        summary |= {
            "mean_num_turns": statistics.fmean(turns),
            "median_num_turns": statistics.median(turns),
            "std_num_turns": statistics.pstdev(turns),
            "min_num_turns": min(turns),
            "p90_num_turns": quantile(turns, 0.9),
            "max_num_turns": max(turns),
        }
    if per_turn := _tokens_per_turn(records):
        summary["mean_tokens_per_turn"] = statistics.fmean(per_turn)
        summary["median_tokens_per_turn"] = statistics.median(per_turn)
    if latencies := _values(records, "total_latency_ms"):
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            summary[f"total_latency_{name}_ms"] = quantile(latencies, q)
        summary["total_latency_mean_ms"] = statistics.fmean(latencies)
    return summary


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile by linear interpolation."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _values(records: Sequence[Mapping[str, Any]], field: str) -> list[float]:
    return [record[field] for record in records if _is_number(record.get(field))]


def _tokens_per_turn(records: Sequence[Mapping[str, Any]]) -> list[float]:
    return [
        record["completion_tokens"] / record["num_turns"]
        for record in records
        if _is_number(record.get("completion_tokens"))
        and _is_number(record.get("num_turns"))
        and record["num_turns"] > 0
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
