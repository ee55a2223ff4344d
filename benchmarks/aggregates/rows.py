"""Made-up rows of a results file, with everything that makes aggregates differ: masks, gaps, uneven repeats."""

import json
import random
from collections.abc import Iterator
from typing import Any


def rows(count: int, seed: int = 5) -> Iterator[dict[str, Any]]:
    """`count` rows in order of task and rollout: tasks of 1 to 12 rollouts, rewards of 0 and 1 or between them."""
    chance = random.Random(seed)
    made = task = 0
    while made < count:
        binary = chance.random() < 0.7
        skill = chance.random()
        for rollout in range(min(chance.randint(1, 12), count - made)):
            yield _row(chance, task, rollout, float(chance.random() < skill) if binary else chance.gauss(skill, 0.3))
            made += 1
        task += 1


def _row(chance: random.Random, task: int, rollout: int, reward: float) -> dict[str, Any]:
    masked = chance.random() < 0.05
    row: dict[str, Any] = {
        "responses_create_params": {"input": [{"role": "user", "content": f"task {task}"}]},
        "response": {"id": f"resp_{task}_{rollout}", "object": "response", "output": []},
        "reward": 0.0 if masked else reward,
        "mask_sample": masked,
        "failure_kind": "env_lost" if masked else None,
        "num_steps": chance.randint(1, 60),
        "cost": chance.lognormvariate(3, 2),
        "solved": reward >= 1,
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "agent_ref": {"type": "responses_api_agents", "name": "agent"},
    }
    if chance.random() < 0.4:
        row["quality"] = chance.random()
    if chance.random() < 0.8:
        tokens = chance.randint(100, 90_000)
        row["response"]["usage"] = {
            "input_tokens": tokens,
            "output_tokens": tokens // 7,
            "total_tokens": tokens + tokens // 7,
            "input_tokens_details": {"cached_tokens": tokens // 3},
            "output_tokens_details": {"reasoning_tokens": tokens // 50},
        }
    if chance.random() < 0.9:
        row["ng_perf"] = _perf(chance)
    return row


def _perf(chance: random.Random) -> dict[str, Any]:
    turns = chance.randint(1, 30)
    perf: dict[str, Any] = {
        "num_turns": turns,
        "num_tool_calls": turns - 1,
        "token_observability_coverage": chance.choice([0.0, 0.5, 1.0]),
        "total_latency_ms": chance.lognormvariate(9, 1),
    }
    for name, likely in (
        ("prompt_tokens", 0.8),
        ("completion_tokens", 0.8),
        ("cached_prompt_tokens", 0.3),
        ("reasoning_tokens", 0.2),
    ):
        if chance.random() < likely:
            perf[name] = chance.randint(0, 100_000)
    return perf


def as_lines(made: Iterator[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in made)
