"""Aggregation of one run or of many shards of it: rows, what is owed, and what stands for what is missing.

`aggregate` reads; `write_aggregate` also writes `<stem>_aggregate_metrics.json`. Both block: run them off the loop.
Memory grows with numbers (about 26 bytes each) and keys, never with payloads.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollgym.common import jsonx
from rollgym.common.errors import ArtifactError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.agent_aggregate import AgentAggregate
from rollgym.driver.evals.owed import Owed, read_owed
from rollgym.driver.evals.shards import OnDuplicate, Row, Shards, index_shards
from rollgym.driver.materialized import BUILT_IN_AGENT, Key


@dataclass(frozen=True)
class ZeroRules:
    """Which rollouts without a row count as reward 0, in metrics only. None, unless asked for.

    `missing` never reaches a rollout whose failure is recorded, whatever its class: choosing classes is choosing.
    """

    missing: bool = False
    failure_classes: frozenset[str] = frozenset()

    def apply(self, key: Key, owed: Owed) -> bool:
        failure = owed.failures.get(key)
        if failure is None:
            return self.missing
        return failure.failure_class in self.failure_classes and not failure.masked


@dataclass
class RunAggregate:
    """Agents by name, and what a person should know beside the numbers."""

    agents: dict[str, AgentAggregate] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    failed_attempts: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    complete: bool = True
    """Whether what was owed is known in full."""

    def agent(self, name: str) -> AgentAggregate:
        found = self.agents.get(name)
        if found is None:
            found = self.agents[name] = AgentAggregate(name)
        return found

    def coverage(self) -> dict[str, int]:
        """The agents' coverages, summed."""
        total: dict[str, int] = {}
        for agent in self.agents.values() or (AgentAggregate(""),):
            for name, count in agent.coverage().items():
                total[name] = total.get(name, 0) + count
        return total


def aggregate(
    runs: Sequence[ArtifactPaths],
    *,
    on_duplicate: OnDuplicate = "refuse",
    zeros: ZeroRules | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> RunAggregate:
    """Aggregate the union of `runs`; `on_row` hears of every row that counts, in order of task and rollout.

    Raises ConfigurationError for a line that is no row, and for duplicates that are to be refused.
    """
    shards = index_shards(runs, on_duplicate)
    owed = read_owed(runs, shards)
    _drop_unknown(shards, owed)
    found = RunAggregate(labels=owed.labels, failed_attempts=owed.failed_attempts, complete=owed.complete)
    zeros = zeros or ZeroRules()
    counted = sorted(key for key in owed.states if zeros.apply(key, owed))
    for key, row in _in_key_order(shards, counted):
        if row is None:
            found.agent(owed.agent(key)).add_zero(key)
            continue
        found.agent(row.facts.agent).add(row)
        if on_row is not None:
            on_row(row)
    for key, state in owed.states.items():
        failure = owed.failures.get(key) if state == "failed" else None
        found.agent(owed.agent(key)).add_unfinished(key[0], state, failure.failure_class if failure else None)
    for name, tokens in owed.failed_tokens.items():
        found.agent(name).failed_tokens = tokens
    found.remarks = [*shards.remarks, *owed.remarks, *_zero_remarks(zeros, counted, owed), *_field_remarks(found)]
    return found


def _in_key_order(shards: Shards, zeros: Sequence[Key]) -> Iterator[tuple[Key, Row | None]]:
    rows: Iterator[tuple[Key, Row | None]] = ((row.key, row) for row in shards.rows())
    return heapq.merge(rows, ((key, None) for key in zeros), key=lambda item: item[0])


def _drop_unknown(shards: Shards, owed: Owed) -> None:
    if not owed.complete:
        return
    unknown = [key for key in shards.ordered_keys() if key not in owed.agents]
    for key in unknown:
        shards.drop(key)
    if unknown:
        owed.remarks.append(f"{len(unknown)} row(s) of rollouts that no materialized input owes are left out")


def _zero_remarks(zeros: ZeroRules, counted: Sequence[Key], owed: Owed) -> Iterator[str]:
    if not zeros.missing and not zeros.failure_classes:
        return
    failed = sum(key in owed.failures for key in counted)
    yield f"{len(counted)} rollout(s) without a row count as zero: {failed} failed, {len(counted) - failed} without any"
    seen = {failure.failure_class for failure in owed.failures.values()}
    for name in sorted(zeros.failure_classes - seen):
        there = f"; there are {', '.join(sorted(seen))}" if seen else ""
        yield f"no rollout failed with class {name}{there}"


def _field_remarks(found: RunAggregate) -> Iterator[str]:
    for agent in found.agents.values():
        if left_out := agent.numbers.left_out:
            yield f"{agent.name}: {len(left_out)} or more numeric fields past the first thousand are left out"


def write_aggregate(
    paths: ArtifactPaths,
    *,
    zeros: ZeroRules | None = None,
    answers: Mapping[str, Mapping[str, Any]] | None = None,
) -> RunAggregate:
    """Aggregate a run's own artifacts and write `<stem>_aggregate_metrics.json`, whole or not at all.

    `answers` are what agent servers made of their rollouts (`agent_answers.py`), by agent name. Raises
    ConfigurationError where an artifact cannot be read, ArtifactError where the file cannot be written.
    """
    found = aggregate([paths], on_duplicate="first", zeros=zeros)
    write_entries(paths.aggregate_metrics, found, answers or {})
    return found


def write_entries(path: Path, found: RunAggregate, answers: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Write the agents' entries as a JSON list, one task a line. Raises ArtifactError."""
    scratch = path.with_name(path.name + ".writing")
    try:
        with scratch.open("wb", buffering=1 << 20) as file:
            for piece in _encoded(found, answers or {}):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror}", path=str(path)) from error


def _encoded(found: RunAggregate, answers: Mapping[str, Mapping[str, Any]]) -> Iterator[bytes]:
    agents = found.agents or {BUILT_IN_AGENT: AgentAggregate(BUILT_IN_AGENT)}  # a run that owes nothing says so
    between = b"["
    for name, agent in sorted(agents.items()):
        entry = _with_answer(agent.entry(), answers.get(name))
        yield between + b"\n" + jsonx.dumps(entry)[:-1] + b',"group_level_metrics":['
        separator = b"\n"
        for group in agent.groups():
            yield separator + jsonx.dumps(group)
            separator = b",\n"
        yield b"\n]}"
        between = b","
    yield b"\n]\n"


def _with_answer(entry: dict[str, Any], answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """The entry with what the agent's own server adds: metrics that only it computes, and its choice of headlines."""
    if answer is None:
        return entry
    metrics = {**(answer.get("agent_metrics") or {}), **entry["agent_metrics"]}
    chosen = answer.get("key_metrics") or entry["key_metrics"]
    headlines = {name: metrics.get(name, value) for name, value in chosen.items()}
    return entry | {"agent_metrics": metrics, "key_metrics": headlines}
