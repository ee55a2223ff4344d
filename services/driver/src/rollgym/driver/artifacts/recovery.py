"""What an earlier start of a run left behind: which rollouts are done, which have failed, what was torn or bad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rollgym.common.errors import AgentRequestFailed, ConfigurationError, InvalidReward
from rollgym.common.surrogates import decode_masking
from rollgym.driver.artifacts.lines import ReadLine, read_lines, repair_torn_end, set_aside
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.materialized import Key, MaterializedRows
from rollgym.driver.payloads import Payload
from rollgym.driver.rollout_facts import RolloutFacts


class _Identity(msgspec.Struct, gc=False):
    task_index: int = msgspec.field(name="_ng_task_index")
    rollout_index: int = msgspec.field(name="_ng_rollout_index")


class _Failure(msgspec.Struct, gc=False):
    task_index: int = msgspec.field(name="_ng_task_index")
    rollout_index: int = msgspec.field(name="_ng_rollout_index")
    failure_class: str = msgspec.field(name="_ng_failure_class", default="unknown")
    terminal: bool = msgspec.field(name="_ng_failure_terminal", default=False)
    latency_s: float | None = msgspec.field(name="_rollgym_latency_s", default=None)


_identity_decoder = msgspec.json.Decoder(_Identity)
_failure_decoder = msgspec.json.Decoder(_Failure)


@dataclass
class FailureHistory:
    """The failed attempts of one rollout: how many, and what the last one was."""

    attempts: int = 0
    last_class: str = "unknown"
    terminal: bool = False
    longest_s: float = 0.0


@dataclass
class Recovered:
    """What was found. `remarks` are sentences for the person who resumes."""

    failures: dict[int, FailureHistory] = field(default_factory=dict)
    """By position."""
    remarks: list[str] = field(default_factory=list)


def recover(
    paths: ArtifactPaths,
    rows: MaterializedRows,
    on_row: Callable[[int, Key, RolloutFacts], None],
    *,
    repair: bool,
) -> Recovered:
    """Repair torn ends, then read results and failures. Blocks; run it off the loop.

    `on_row(position, key, facts)` is called once per rollout that has its row. Raises ConfigurationError for a bad
    line that was not torn, naming file and line; with `repair` such lines of the results are set aside instead.
    """
    found = Recovered()
    for path in (paths.results, paths.failures, paths.journal):
        torn = repair_torn_end(path)
        if torn:
            found.remarks.append(f"{path.name}: a torn last line of {torn:,} bytes was moved to {path.name}.torn")
    positions = rows.positions()
    _read_results(paths.results, positions, on_row, found, repair=repair)
    _read_failures(paths.failures, positions, found)
    return found


def _read_results(
    path: Path,
    positions: dict[Key, int],
    on_row: Callable[[int, Key, RolloutFacts], None],
    found: Recovered,
    *,
    repair: bool,
) -> None:
    seen: set[int] = set()
    bad: dict[int, str] = {}
    redundant: Counter[str] = Counter()
    aside: set[int] = set()
    for line in _lines_if_any(path):
        try:
            identity, _ = decode_masking(line.content, _identity_decoder)
            key = (identity.task_index, identity.rollout_index)
            position = positions.get(key)
            if position is None or position in seen:
                redundant["of a rollout that is not owed" if position is None else "of a rollout that has one"] += 1
                aside.add(line.number)
                continue
            facts = Payload(line.content).facts()
        except (msgspec.DecodeError, RecursionError, AgentRequestFailed, InvalidReward) as error:
            bad[line.number] = str(error)
            continue
        seen.add(position)
        on_row(position, key, facts)
    if bad and not repair:
        number, reason = next(iter(bad.items()))
        raise ConfigurationError(
            f"{path} line {number} is bad ({reason[:200]}); {len(bad)} such line(s). The file is as it was. "
            "++repair=true sets them aside and runs those rollouts again",
            file=str(path),
            line=number,
        )
    for what, count in redundant.items():
        found.remarks.append(f"{path.name}: {count} row(s) {what}, set aside in {path.name}.bad and not counted")
    if bad:
        found.remarks.append(
            f"{path.name}: {len(bad)} bad line(s) set aside in {path.name}.bad; those rollouts run again"
        )
    if bad or aside:
        set_aside(path, aside | bad.keys())


def _read_failures(path: Path, positions: dict[Key, int], found: Recovered) -> None:
    unreadable = unknown = 0
    for line in _lines_if_any(path):
        try:
            failure, _ = decode_masking(line.content, _failure_decoder)
        except (msgspec.DecodeError, RecursionError):
            unreadable += 1
            continue
        position = positions.get((failure.task_index, failure.rollout_index))
        if position is None:
            unknown += 1
            continue
        history = found.failures.setdefault(position, FailureHistory())
        history.attempts += 1
        history.last_class = failure.failure_class
        history.terminal = failure.terminal
        history.longest_s = max(history.longest_s, failure.latency_s or 0.0)
    if unknown:
        found.remarks.append(f"{path.name}: {unknown} line(s) of a rollout that is not owed are not counted")
    if unreadable:
        found.remarks.append(f"{path.name}: {unreadable} line(s) cannot be read; their attempts are not counted")


def _lines_if_any(path: Path) -> Iterator[ReadLine]:
    return read_lines(path) if path.exists() else iter(())
