"""`perf_summary`: what the rollouts' `ng_perf` say together, by NeMo Gym's definitions.

Every rollout that ran counts, masked ones too. A statistic of a field that nobody reported is absent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rollgym.driver.evals.describe import finite_only, quantile, square_total, total
from rollgym.driver.evals.numbers_table import NumbersTable

PERF_FIELDS = (
    "num_turns",
    "num_tool_calls",
    "token_observability_coverage",
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "total_latency_ms",
)
_TOKEN_FIELDS = PERF_FIELDS[3:7]
TOKENS_PER_TURN = "tokens_per_turn"


def perf_numbers(perf: dict[str, Any] | None) -> dict[str, float]:
    """The numbers of one `ng_perf`, with completion tokens per turn where both are known."""
    numbers: dict[str, float] = {}
    for name in PERF_FIELDS:
        value = (perf or {}).get(name)
        if isinstance(value, int | float):
            numbers[name] = float(value)
    if numbers.get("num_turns", 0.0) > 0 and "completion_tokens" in numbers:
        numbers[TOKENS_PER_TURN] = numbers["completion_tokens"] / numbers["num_turns"]
    return numbers


def perf_summary(table: NumbersTable, with_perf: int, rollouts: int) -> dict[str, float] | None:
    """Statistics over `rollouts` rollouts, `with_perf` of which had an `ng_perf`; None where none had."""
    if not with_perf:
        return None
    columns = {name: sorted(values) for name, values in table.columns().items()}
    coverage = columns.get("token_observability_coverage", [])
    summary = {
        "overall_observability_coverage": with_perf / rollouts,
        "token_observability_coverage": sum(value > 0 for value in coverage) / rollouts,
    }
    for name in _TOKEN_FIELDS:
        if ordered := columns.get(name):
            summary |= {
                f"mean_{name}": _mean(ordered),
                f"median_{name}": quantile(ordered, 0.5),
                f"total_{name}": total(ordered),
            }
    if turns := columns.get("num_turns"):
        mean = _mean(turns)
        summary |= {
            "mean_num_turns": mean,
            "median_num_turns": quantile(turns, 0.5),
            "std_num_turns": math.sqrt(square_total(turns, mean) / len(turns)),
            "min_num_turns": turns[0],
            "p90_num_turns": quantile(turns, 0.9),
            "max_num_turns": turns[-1],
        }
    if ratios := columns.get(TOKENS_PER_TURN):
        summary |= {"mean_tokens_per_turn": _mean(ratios), "median_tokens_per_turn": quantile(ratios, 0.5)}
    if latencies := columns.get("total_latency_ms"):
        summary |= {f"total_latency_p{p}_ms": quantile(latencies, p / 100) for p in (50, 90, 99)}
        summary["total_latency_mean_ms"] = _mean(latencies)
    return finite_only(summary)


def _mean(values: Sequence[float]) -> float:
    return total(values) / len(values)
