"""What a task is, apart from its number: a digest of its row, the same in every run over the same task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.lines import read_lines
from rollgym.driver.artifacts.paths import ArtifactPaths

_NOT_THE_TASK = frozenset({"agent_ref", "scripted", "tags", "responses_create_params"})
"""Who plays, how it is labelled, and how the model samples; of the last, `input` is the task."""


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """`occurrence` tells apart tasks of the same content that a caller gave different indices."""

    content: str
    occurrence: int


def task_identities(run: ArtifactPaths) -> dict[int, TaskIdentity]:
    """Identities by task index, from a run's materialized inputs; empty where there are none. Blocks."""
    path = run.materialized_inputs
    if not path.exists():
        return {}
    contents: dict[int, str] = {}
    for line in read_lines(path):
        try:
            row = jsonx.loads(line.content)
            if row["_ng_task_index"] not in contents:
                contents[row["_ng_task_index"]] = _digest(row)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} line {line.number}: {error}", file=str(path), line=line.number) from error
    seen: Counter[str] = Counter()
    identities = {}
    for task in sorted(contents):
        identities[task] = TaskIdentity(contents[task], seen[contents[task]])
        seen[contents[task]] += 1
    return identities


def _digest(row: dict[str, Any]) -> str:
    own = {name: value for name, value in row.items() if not name.startswith("_") and name not in _NOT_THE_TASK}
    params = row.get("responses_create_params")
    own["input"] = params.get("input") if isinstance(params, dict) else params
    return blake2b(msgspec.json.encode(own, order="sorted"), digest_size=16).hexdigest()
