"""A run of many rollouts as files: retries, failures, masks, tokens, samples, one resume in the middle."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollgym.common.failures import FailureClass
from rollgym.driver.artifacts.paths import ArtifactPaths

AGENT = {"name": "rollgym_agent", "type": "responses_api_agents"}
REPEATS = 8
PAUSE_S = 3600.0


def write_busy_run(folder: Path, rollouts: int) -> ArtifactPaths:
    """Write the artifacts of a run that owes so many rollouts."""
    chance = random.Random(3)
    run = ArtifactPaths(folder / "busy.jsonl")
    journal: list[dict[str, Any]] = [{"event": "started", "at": 0.0}]
    with run.results.open("w") as rows, run.materialized_inputs.open("w") as inputs, run.failures.open("w") as failures:
        for number in range(rollouts):
            identity = {"_ng_task_index": number // REPEATS, "_ng_rollout_index": number % REPEATS, "agent_ref": AGENT}
            tags = {"level": "hard" if number % 3 else "easy"}
            prompt = {"responses_create_params": {"input": f"task {number // REPEATS}"}, "env": "grid", "tags": tags}
            inputs.write(json.dumps(prompt | identity) + "\n")
            at = number * 0.5 + (PAUSE_S if number > rollouts // 2 else 0.0)
            if number == rollouts // 2 + 1:
                journal.append({"event": "resumed", "at": at})
            seconds = chance.lognormvariate(3, 0.5)
            key = {"task": identity["_ng_task_index"], "rollout": identity["_ng_rollout_index"]}
            journal.append({"event": "dispatched", "at": at, **key})
            if chance.random() < 0.05:
                failed = {"_ng_failure_class": chance.choice(list(FailureClass)), "_ng_failure_terminal": True}
                failures.write(json.dumps(identity | failed) + "\n")
                reason = {"failure_class": failed["_ng_failure_class"], "terminal": True}
                journal.append({"event": "failed", "at": at + seconds, "seconds": seconds, **key, **reason})
                continue
            rows.write(json.dumps(_row(chance, seconds) | {"tags": tags} | identity) + "\n")
            journal.append({"event": "succeeded", "at": at + seconds, "seconds": seconds, **key})
    journal.sort(key=lambda line: line["at"])
    run.journal.write_text("".join(json.dumps(line) + "\n" for line in journal))
    run.samples.write_text("".join(json.dumps(sample) + "\n" for sample in _samples(chance, rollouts)))
    return run


def _row(chance: random.Random, seconds: float) -> dict[str, Any]:
    tokens = chance.randint(500, 50_000)
    usage = {"input_tokens": tokens, "output_tokens": tokens // 9, "total_tokens": tokens + tokens // 9}
    return {
        "reward": float(chance.random() < 0.4),
        "mask_sample": chance.random() < 0.02,
        "response": {"usage": usage | {"input_tokens_details": {"cached_tokens": tokens // 2}}},
        "ng_perf": {"num_turns": 4, "token_observability_coverage": 1.0, "total_latency_ms": seconds * 1000},
    }


def _samples(chance: random.Random, rollouts: int) -> Iterator[dict[str, Any]]:
    for number in range(rollouts // 10):
        at = number * 5.0 + (PAUSE_S if number > rollouts // 20 else 0.0)
        pause_ms = chance.choice([0.0, chance.lognormvariate(1, 1)])
        yield {
            "at": at,
            "in_flight": 40,
            "lag_max_ms": chance.lognormvariate(2, 1),
            "lag_mean_ms": 1.0,
            "gc_pause_max_ms": pause_ms,
            "gc_pause_sum_ms": pause_ms,
            "gc_collections": [1, 0, 0],
        }
