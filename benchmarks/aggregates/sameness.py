"""Whether two aggregates say the same: every key that both have, numbers within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 1e-9


@dataclass
class Sameness:
    """`shared` counts compared numbers; `differing` names those apart, `only_theirs` the paths that ours lacks."""

    shared: int = 0
    worst: float = 0.0
    differing: list[str] = field(default_factory=list)
    only_theirs: list[str] = field(default_factory=list)


def compare(theirs: Any, ours: Any) -> Sameness:
    """Compare two aggregates of the same rows; list items are paired by task or rollout index, else by position."""
    found = Sameness()
    mine = dict(_leaves("", ours))
    for path, value in _leaves("", theirs):
        if path not in mine:
            found.only_theirs.append(path)
            continue
        found.shared += 1
        if isinstance(value, int | float) and isinstance(mine[path], int | float):
            apart = abs(value - mine[path]) / max(1.0, abs(value))
            found.worst = max(found.worst, apart)
            if apart <= TOLERANCE and math.isfinite(apart):
                continue
        elif value == mine[path]:
            continue
        found.differing.append(f"{path}: theirs {value!r}, ours {mine[path]!r}")
    return found


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, item)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _leaves(f"{path}[{_name_of(item, position)}]", item)
    else:
        yield path, value


def _name_of(item: Any, position: int) -> str:
    if isinstance(item, dict):
        for index in ("_ng_rollout_index", "_ng_task_index"):
            if index in item:
                return f"{index}={item[index]}"
    return str(position)
