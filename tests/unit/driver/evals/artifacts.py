"""Artifacts of made-up runs, written as a driver writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rollgym.driver.artifacts.paths import ArtifactPaths

AGENT = "agent"


def result(task: int, rollout: int = 0, reward: Any = 1.0, **fields: Any) -> dict[str, Any]:
    """A row of the results."""
    return {
        "reward": reward,
        "response": {},
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "agent_ref": {"name": AGENT},
        **fields,
    }


def masked(task: int, rollout: int = 0, kind: str = "env_lost", **fields: Any) -> dict[str, Any]:
    """A row whose reward is a placeholder."""
    return result(task, rollout, 0.0, mask_sample=True, failure_kind=kind, **fields)


def owed(task: int, rollout: int = 0, **fields: Any) -> dict[str, Any]:
    """A materialized input."""
    return {
        "responses_create_params": {"input": f"task {task}"},
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "agent_ref": {"name": AGENT},
        **fields,
    }


def failure(task: int, rollout: int = 0, failure_class: str = "model_error", **fields: Any) -> dict[str, Any]:
    """A line of the failures."""
    identity = {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": {"name": AGENT}}
    return {**identity, "_ng_failure_class": failure_class, **fields}


def event(name: str, at: float = 0.0, key: tuple[int, int] | None = None, **fields: Any) -> dict[str, Any]:
    """A line of the journal."""
    where = {} if key is None else {"task": key[0], "rollout": key[1]}
    return {"event": name, "at": at, **where, **fields}


def write_run(
    folder: Path,
    rows: Iterable[Any] = (),
    *,
    name: str = "run",
    inputs: Iterable[Any] | None = None,
    failures: Iterable[Any] = (),
    journal: Iterable[Any] = (),
    samples: Iterable[Any] | None = None,
) -> ArtifactPaths:
    """Write a run's files; no materialized inputs or samples where they are None."""
    run = ArtifactPaths(folder / f"{name}.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    for path, lines in (
        (run.results, rows),
        (run.materialized_inputs, inputs),
        (run.failures, failures),
        (run.journal, journal),
        (run.samples, samples),
    ):
        if lines is not None:
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return run
