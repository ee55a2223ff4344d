"""What runs owe, and where each rollout without a row stands: failed, drained, cancelled, or missing.

Read from the materialized inputs (what is owed), the failures (why), and the journal (what became of it last).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from rollgym.common.errors import ConfigurationError
from rollgym.common.surrogates import decode_masking
from rollgym.driver.artifacts.journal import JournalLine
from rollgym.driver.artifacts.lines import read_lines
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.materialized import Key
from rollgym.driver.payloads import TOKENS_KEY
from rollgym.driver.statistics import TokenSum
from rollgym.driver.survey import picked

State = Literal["failed", "drained", "cancelled", "missing"]
MOST_LABEL = 80
UNKNOWN_AGENT = "unknown"


class _Ref(msgspec.Struct, gc=False):
    name: str = UNKNOWN_AGENT


class _OwedRow(msgspec.Struct, gc=False):
    task_index: int = msgspec.field(name="_ng_task_index")
    rollout_index: int = msgspec.field(name="_ng_rollout_index")
    agent_ref: _Ref | None = None
    env: str | None = None
    tags: Any = None


class _FailureLine(msgspec.Struct, gc=False):
    task_index: int = msgspec.field(name="_ng_task_index")
    rollout_index: int = msgspec.field(name="_ng_rollout_index")
    failure_class: str = msgspec.field(name="_ng_failure_class", default="unknown")
    agent_ref: _Ref | None = None
    mask_sample: bool = False
    tokens: Any = msgspec.field(name=TOKENS_KEY, default=None)


_OF_OWED_ROW = _OwedRow.__struct_encode_fields__
_owed_decoder = msgspec.json.Decoder(_OwedRow)
_failure_decoder = msgspec.json.Decoder(_FailureLine)
_journal_decoder = msgspec.json.Decoder(JournalLine)


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed attempt of a rollout that has no row."""

    failure_class: str
    agent: str
    masked: bool


@dataclass
class FailedTokens:
    """Tokens of failed attempts by kind, each with how many of the `attempts` reported it."""

    attempts: int = 0
    kinds: dict[str, TokenSum] = field(default_factory=dict)

    def add(self, tokens: Any) -> None:
        self.attempts += 1
        for kind, count in tokens.items() if isinstance(tokens, dict) else ():
            if isinstance(count, int):
                self.kinds.setdefault(kind, TokenSum()).add(count)

    def to_json(self) -> dict[str, Any]:
        return {
            kind: {"total": each.total, "reported_by": each.rollouts, "of": self.attempts}
            for kind, each in self.kinds.items()
        }


@dataclass
class Owed:
    """Rollouts by key. `agents` holds every owed rollout's agent; `states` only those without a row.

    `complete` says that every run had its materialized inputs: without them nobody knows what else was owed.
    """

    agents: dict[Key, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    """What a task is, in a few words, by task index."""
    states: dict[Key, State] = field(default_factory=dict)
    failures: dict[Key, Failure] = field(default_factory=dict)
    failed_attempts: dict[str, int] = field(default_factory=dict)
    """Failed attempts by class, of rollouts with a row and without."""
    failed_tokens: dict[str, FailedTokens] = field(default_factory=dict)
    """What failed attempts cost, by agent."""
    complete: bool = True
    remarks: list[str] = field(default_factory=list)

    def agent(self, key: Key) -> str:
        """The agent of a rollout without a row."""
        failure = self.failures.get(key)
        return self.agents.get(key) or (failure.agent if failure else UNKNOWN_AGENT)


def read_owed(runs: Iterable[ArtifactPaths], with_rows: Container[Key]) -> Owed:
    """Read the companions of results files; `with_rows` are the keys that have a row. Blocks."""
    owed = Owed()
    last: dict[Key, JournalLine] = {}
    for run in runs:
        _read_inputs(run.materialized_inputs, owed)
        _read_failures(run.failures, with_rows, owed)
        last.update((key, line) for key, line in _journal(run.journal, owed.remarks) if key not in with_rows)
    known = owed.agents.keys() if owed.complete else owed.agents.keys() | owed.failures.keys() | last.keys()
    for key in known:
        if key not in with_rows:
            owed.states[key] = _state(last.get(key), recorded=key in owed.failures)
    return owed


def _state(last: JournalLine | None, *, recorded: bool) -> State:
    """A failure that the journal does not call final is still owed; without a journal, a failure is one."""
    if last is None:
        return "failed" if recorded else "missing"
    if last.event == "failed":
        return "failed" if last.terminal else "missing"
    if last.event == "drained":
        return "drained"
    return "cancelled" if last.event == "cancelled" else "missing"


def _read_inputs(path: Path, owed: Owed) -> None:
    if not path.exists():
        owed.complete = False
        owed.remarks.append(f"{path.name} is not there: what its run owed beyond its rows and failures is not known")
        return
    for line in read_lines(path):
        try:
            found = picked(line.content, _OF_OWED_ROW)
            row, _ = decode_masking(line.content if found is None else found, _owed_decoder)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} line {line.number}: {error}", file=str(path), line=line.number) from error
        owed.agents[row.task_index, row.rollout_index] = row.agent_ref.name if row.agent_ref else UNKNOWN_AGENT
        if row.task_index not in owed.labels:
            owed.labels[row.task_index] = _label(row)


def _label(row: _OwedRow) -> str:
    words = [] if row.env is None else [row.env]
    if isinstance(row.tags, Mapping):
        words += [f"{name}={value}" for name, value in row.tags.items() if isinstance(value, str | int | float)]
    elif isinstance(row.tags, list):
        words += [word for word in row.tags if isinstance(word, str)]
    label = " ".join(words)
    return label if len(label) <= MOST_LABEL else label[: MOST_LABEL - 1] + "…"


def _read_failures(path: Path, with_rows: Container[Key], owed: Owed) -> None:
    unreadable = 0
    for line in read_lines(path) if path.exists() else ():
        try:
            failure, _ = decode_masking(line.content, _failure_decoder)
        except (msgspec.DecodeError, UnicodeDecodeError):
            unreadable += 1
            continue
        owed.failed_attempts[failure.failure_class] = owed.failed_attempts.get(failure.failure_class, 0) + 1
        key = (failure.task_index, failure.rollout_index)
        agent = failure.agent_ref.name if failure.agent_ref else owed.agents.get(key, UNKNOWN_AGENT)
        owed.failed_tokens.setdefault(agent, FailedTokens()).add(failure.tokens)
        if key not in with_rows:
            owed.failures[key] = Failure(failure.failure_class, agent, failure.mask_sample)
    if unreadable:
        owed.remarks.append(f"{path.name}: {unreadable} line(s) cannot be read and are not counted")


def _journal(path: Path, remarks: list[str]) -> Iterator[tuple[Key, JournalLine]]:
    for line in journal_lines(path, remarks):
        if line.task is not None and line.rollout is not None:
            yield (line.task, line.rollout), line


def journal_lines(path: Path, remarks: list[str] | None = None) -> Iterator[JournalLine]:
    """Lines of a journal, of none where there is no file; what cannot be read is counted in a remark."""
    unreadable = 0
    for line in read_lines(path) if path.exists() else ():
        try:
            yield _journal_decoder.decode(line.content)
        except msgspec.DecodeError:
            unreadable += 1
    if unreadable and remarks is not None:
        remarks.append(f"{path.name}: {unreadable} line(s) cannot be read")
