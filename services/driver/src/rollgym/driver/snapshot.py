"""A run as the head wants to hear of it, at any moment of its life."""

from __future__ import annotations

import socket
import time
from typing import Any

from rollgym.driver.ledger import RolloutState
from rollgym.driver.plan import RunPlan

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def run_snapshot(plan: RunPlan, rollouts_per_hour: float | None) -> dict[str, Any]:
    """The body of ``PUT /v1/runs/{run_id}``. Latency and rate are of this start of the run, the rest of all of it."""
    manifest, ledger, statistics = plan.manifest, plan.ledger, plan.statistics
    counts, latency = ledger.counts(), statistics.latency
    return {
        "run_id": manifest.run_id,
        "name": plan.paths.results.stem,
        "state": manifest.state,
        "started_at": manifest.started_at,
        "ended_at": manifest.ended_at,
        "sent_at": time.time(),
        "owed": manifest.owed,
        "scored": statistics.rewards.count,
        "counts": {
            "succeeded": counts.succeeded,
            "masked": counts.masked,
            "failed": counts.failed,
            "drained": counts.drained,
            "cancelled": counts.cancelled,
            "in_flight": ledger.count(RolloutState.IN_FLIGHT),
            "pending": ledger.count(RolloutState.OWED),
        },
        "reward_mean": statistics.rewards.mean,
        "rollouts_per_hour": rollouts_per_hour,
        "latency_s": {name: latency.quantile(q) for name, q in _QUANTILES.items()} if latency.count else None,
        "failures": dict(ledger.failures),
        "output": str(plan.paths.results),
        "host": socket.gethostname(),
    }
