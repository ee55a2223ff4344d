"""Results files as one set of rollouts: indexed by key, read in key order, each rollout once.

In memory a row is its key and where it is; its bytes are read when its turn comes. Nothing here knows metrics.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from rollgym.common.errors import AgentRequestFailed, ConfigurationError, InvalidReward
from rollgym.common.surrogates import decode_masking
from rollgym.driver.artifacts.lines import ReadLine, read_lines
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.materialized import Key
from rollgym.driver.payloads import TIMINGS_KEY, Payload
from rollgym.driver.rollout_facts import RolloutFacts
from rollgym.driver.survey import outline, picked

COMPANIONS = ("_failures", "_materialized_inputs", "_journal", "_samples")
SHOWN_KEYS = 5

TASK_INDEX, ROLLOUT_INDEX = "_ng_task_index", "_ng_rollout_index"
HEAVY = frozenset({"responses_create_params", "ng_agent_observations", "ng_model_call_capture", "ng_trajectory"})
"""Fields of a row that no metric is made of."""
OF_RESPONSE = ("usage", "status", "incomplete_details")
"""What of a row's response metrics are made of."""

Index = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
OnDuplicate = Literal["refuse", "first", "last"]


class _Identity(msgspec.Struct, gc=False):
    task_index: Index = msgspec.field(name=TASK_INDEX)
    rollout_index: Index = msgspec.field(name=ROLLOUT_INDEX)


_identity_decoder = msgspec.json.Decoder(_Identity)


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout of the results: its bytes, and the numbers that metrics are made of."""

    key: Key
    line: bytes
    payload: Payload
    facts: RolloutFacts

    @property
    def latency_ms(self) -> float | None:
        """Dispatch to end: what `ng_perf` says, else session wait and active time; None where neither is known."""
        total = (self.facts.perf or {}).get("total_latency_ms")
        if isinstance(total, int | float):
            return float(total)
        timings = self.payload.value(TIMINGS_KEY)
        if not isinstance(timings, dict):
            return None
        parts = [timings.get(name) for name in ("session_wait_ms", "active_ms")]
        return sum(part for part in parts if isinstance(part, int | float)) if any(parts) else None


@dataclass
class Shards:
    """Results files of one run, in the order in which they were named. `remarks` are sentences for a person."""

    runs: list[ArtifactPaths]
    remarks: list[str] = field(default_factory=list)
    _place: dict[Key, int] = field(default_factory=dict)
    _file_of: array[int] = field(default_factory=lambda: array("H"))
    _offset: array[int] = field(default_factory=lambda: array("Q"))
    _length: array[int] = field(default_factory=lambda: array("Q"))
    _number: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, key: object) -> bool:
        return key in self._place

    def ordered_keys(self) -> list[Key]:
        """The keys of all rows, in order of task and rollout."""
        return sorted(self._place)

    def _add(self, key: Key, file: int, line: ReadLine) -> None:
        self._place[key] = len(self._offset)
        self._file_of.append(file)
        self._offset.append(line.offset)
        self._length.append(len(line.content))
        self._number.append(line.number)

    def drop(self, key: Key) -> None:
        """Leave a row out of what is read."""
        del self._place[key]

    def rows(self) -> Iterator[Row]:
        """Rows in order of task and rollout. Raises ConfigurationError, with file and line, for one that is none."""
        for key, line in self.lines():
            yield self._row(key, line)

    def lines(self) -> Iterator[tuple[Key, bytes]]:
        """The bytes of the rows, without line ends, in order of task and rollout."""
        with _Reader(self) as reader:
            for key in self.ordered_keys():
                yield key, reader.line(self._place[key])

    def _row(self, key: Key, line: bytes) -> Row:
        try:
            payload = Payload(outline(line, HEAVY, OF_RESPONSE) or line, finished=True)
            return Row(key, line, payload, payload.facts())
        except (AgentRequestFailed, InvalidReward) as error:
            place = self._place[key]
            path, number = self.runs[self._file_of[place]].results, self._number[place]
            raise ConfigurationError(f"{path} line {number}: {error.message}", file=str(path), line=number) from error


class _Reader:
    """Reads lines where they are; keeps the file open that it read last."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._opened = self._descriptor = -1

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def line(self, place: int) -> bytes:
        shards = self._shards
        if shards._file_of[place] != self._opened:
            self.__exit__()
            self._opened = shards._file_of[place]
            self._descriptor = os.open(shards.runs[self._opened].results, os.O_RDONLY)
        return os.pread(self._descriptor, shards._length[place], shards._offset[place])


def index_shards(runs: Sequence[ArtifactPaths], on_duplicate: OnDuplicate = "refuse") -> Shards:
    """Index every row. Blocks.

    Two rows of one rollout that are the same bytes count once; two that differ are refused (ConfigurationError), or
    the first or last one stays, in the order of files and lines. Either way a remark says how many there were.
    """
    shards = Shards(list(runs))
    same: list[Key] = []
    differing: dict[Key, tuple[str, str]] = {}
    with _Reader(shards) as reader:
        for file, run in enumerate(shards.runs):
            for line in _lines(run.results, shards.remarks):
                key = _key_of(run.results, line)
                earlier = shards._place.get(key)
                if earlier is not None:
                    if shards._length[earlier] == len(line.content) and reader.line(earlier) == line.content:
                        same.append(key)
                        continue
                    before = shards.runs[shards._file_of[earlier]].results
                    differing[key] = (f"{before} line {shards._number[earlier]}", f"{run.results} line {line.number}")
                    if on_duplicate == "first":
                        continue
                shards._add(key, file, line)
    if same:
        shards.remarks.append(f"{len(same)} row(s) are copies of another, byte for byte; each counts once")
    if differing:
        _settle(differing, on_duplicate, shards.remarks)
    return shards


def _settle(differing: dict[Key, tuple[str, str]], on_duplicate: OnDuplicate, remarks: list[str]) -> None:
    named = "; ".join(
        f"task {task} rollout {rollout}: {places[0]} and {places[1]}"
        for (task, rollout), places in list(differing.items())[:SHOWN_KEYS]
    )
    if on_duplicate == "refuse":
        raise ConfigurationError(
            f"{len(differing)} rollout(s) have rows that differ ({named}). If these are two results of one rollout, "
            "--on-duplicate first or last chooses; if the shards number their tasks alike, give each task its own "
            "_ng_task_index before collecting",
            duplicates=len(differing),
        )
    remarks.append(f"{len(differing)} rollout(s) have rows that differ; the {on_duplicate} one counts ({named})")


def _lines(path: Path, remarks: list[str]) -> Iterator[ReadLine]:
    """Lines of a results file; one without its line end that is no JSON was torn, and is left out with a remark."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            ended = size == 0 or file.read(1) == b"\n"
        for line in read_lines(path):
            if not ended and line.offset + len(line.content) >= size and not _is_json(line.content):
                remarks.append(f"{path}: its last line is torn ({len(line.content):,} bytes) and left out")
                return
            yield line
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", path=str(path)) from error


def _is_json(content: bytes) -> bool:
    try:
        decode_masking(content, msgspec.json.Decoder(msgspec.Raw))
        return bool(content.rstrip().endswith(b"}"))
    except msgspec.DecodeError:
        return False


def _key_of(path: Path, line: ReadLine) -> Key:
    found = picked(line.content, (TASK_INDEX, ROLLOUT_INDEX))
    try:
        identity, _ = decode_masking(line.content if found is None else found, _identity_decoder)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} line {line.number}: {error}", file=str(path), line=line.number) from error
    return identity.task_index, identity.rollout_index
