"""Whether everything that tells how a run went tells the same: exit code, files, summary, and the agents themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rollgym.driver.artifacts.manifest import Manifest
from rollgym.driver.artifacts.paths import ArtifactPaths

Key = tuple[int, int]
COMPLETE, INCOMPLETE = 0, 3


class _Identity(msgspec.Struct, gc=False):
    task: int = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")
    terminal: bool = msgspec.field(name="_ng_failure_terminal", default=False)


_decoder = msgspec.json.Decoder(_Identity)


@dataclass(frozen=True)
class Served:
    """What the agents say that they answered, over all their processes."""

    answers: int
    failed_attempts: Counter[Key]


@dataclass(frozen=True)
class Told:
    """What a run's end says of it."""

    owed: int
    exit_code: int
    summary: dict[str, Any]
    paths: ArtifactPaths


def served_by(stats: Sequence[dict[str, Any]]) -> Served:
    """What the agents' `/stat` answers come to."""
    failed = Counter((task, rollout) for stat in stats for task, rollout, _ in stat["failed_attempts"])
    return Served(sum(len(stat["answered_at"]) for stat in stats), failed)


def disagreements(told: Told, served: Served | None = None, *, max_attempts: int = 3) -> list[str]:
    """Every disagreement as a sentence; none is as it must be. `served` where agents can be asked."""
    rows = Counter(key for key, _ in lines_of(told.paths.results))
    failed = list(lines_of(told.paths.failures))
    failures = Counter(key for key, _ in failed)
    given_up = {key for key, terminal in failed if terminal or failures[key] >= max_attempts}
    coverage = told.summary["coverage"]
    manifest = Manifest.read(told.paths.manifest)
    found = [
        *_differ("rollouts in the results twice", sum(count - 1 for count in rows.values()), 0),
        *_differ("rollouts both in the results and failed for good", len(given_up & rows.keys()), 0),
        *_differ("rows in the results and rollouts scored by the summary", len(rows), coverage["scored"]),
        *_differ("rollouts failed for good in the failures file and in the summary", len(given_up), coverage["failed"]),
        *_differ("rows with failed rollouts and what the run owed", len(rows) + len(given_up), told.owed),
        *_differ("rollouts expected by the summary and owed", coverage["expected"], told.owed),
        *_differ("successes in the manifest and in the results", manifest.counts.succeeded, len(rows)),
        *_differ("failures in the manifest and in the failures file", manifest.counts.failed, len(given_up)),
        *_differ("the exit code and what became of the rollouts", told.exit_code, INCOMPLETE if given_up else COMPLETE),
    ]
    if served is not None:
        answered = len(rows) + failures.total()
        found += _differ("attempts in the files and answered by the agents", answered, served.answers)
        wrong = (failures - served.failed_attempts) + (served.failed_attempts - failures)
        found += _differ("attempts that failed for only one of the failures file and the agents", wrong.total(), 0)
    return found


def lines_of(path: Path) -> Iterator[tuple[Key, bool]]:
    """Of each line of a results or failures file: its rollout, and whether it says that no repeat can help.

    None where there is no such file.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            identity = _decoder.decode(line)
            yield (identity.task, identity.rollout), identity.terminal


def _differ(what: str, first: int, second: int) -> list[str]:
    return [] if first == second else [f"{what}: {first} and {second}"]
