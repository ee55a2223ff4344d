"""Every rollout that a run owes, on disk and in order: task lines after repeats, overrides and identity.

In memory a row is 29 bytes (where it is, its key, whose labels it has, its state); its content is read when it is sent.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import ArtifactError, ConfigurationError
from rollgym.common.surrogates import decode_masking, unmask_lone_surrogates
from rollgym.driver.artifacts.lines import read_lines
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.encoded import raw_bytes
from rollgym.driver.file_range import FileRange
from rollgym.driver.tasks import AgentRef, TaskLine, task_lines

BUILT_IN_AGENT = "rollgym_agent"

Key = tuple[int, int]
"""(task index, rollout index): what a rollout is called, in every artifact."""

_RawObject = dict[str, msgspec.Raw]
_encoder = msgspec.json.Encoder()
_object_decoder = msgspec.json.Decoder(_RawObject)


_NULL = msgspec.Raw(b"null")


class _Identity(msgspec.Struct, gc=False):
    task_index: int = msgspec.field(name="_ng_task_index")
    rollout_index: int = msgspec.field(name="_ng_rollout_index")
    agent_ref: msgspec.Raw
    tags: msgspec.Raw = _NULL  # no `Raw | None`: msgspec takes that for null alone


_identity_decoder = msgspec.json.Decoder(_Identity)


@dataclass(frozen=True, slots=True)
class RowLabels:
    """What a result keeps of its row, encoded: the same for many rows, and kept once."""

    agent: str
    agent_ref: bytes
    tags: bytes | None

    @classmethod
    def of(cls, agent_ref: msgspec.Raw, tags: msgspec.Raw | None) -> RowLabels:
        return cls(
            agent=msgspec.json.decode(agent_ref, type=AgentRef).name,
            agent_ref=bytes(agent_ref),
            tags=None if tags is None or tags == _NULL else raw_bytes(tags),
        )


@dataclass
class MaterializedRows:
    """The rows of a materialized inputs file. Positions count from 0 in the file's order."""

    path: Path
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    task_indices: array[int] = field(default_factory=lambda: array("q"))
    rollout_indices: array[int] = field(default_factory=lambda: array("q"))
    label_numbers: array[int] = field(default_factory=lambda: array("I"))
    size_bytes: int = 0
    _numbers: dict[RowLabels, int] = field(default_factory=dict)
    _labels: list[RowLabels] = field(default_factory=list)
    _descriptor: int = -1

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, key: Key, labels: RowLabels) -> None:
        number = self._numbers.setdefault(labels, len(self._labels))
        if number == len(self._labels):
            self._labels.append(labels)
        self.offsets.append(offset)
        self.task_indices.append(key[0])
        self.rollout_indices.append(key[1])
        self.label_numbers.append(number)

    def labels_of(self, position: int) -> RowLabels:
        return self._labels[self.label_numbers[position]]

    def key(self, position: int) -> Key:
        return self.task_indices[position], self.rollout_indices[position]

    def positions(self) -> dict[Key, int]:
        """Positions by key; build it, use it, let it go: it is what the arrays are there to avoid."""
        return {self.key(position): position for position in range(len(self))}

    def read(self, position: int) -> bytes:
        """The bytes of one row. Read here and now: the file was just written, or just indexed, and is cached."""
        row = self.in_file(position)
        return os.pread(row.descriptor, row.size, row.offset)

    def in_file(self, position: int) -> FileRange:
        """Where one row is, without its line end."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDONLY)
        return FileRange(self._descriptor, self.offsets[position], self.size(position))

    def size(self, position: int) -> int:
        """Bytes of one row, without its line end."""
        return self._end(position) - self.offsets[position] - 1

    def _end(self, position: int) -> int:
        return self.offsets[position + 1] if position + 1 < len(self) else self.size_bytes

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def materialize(config: RolloutCollectionConfig, path: Path) -> MaterializedRows:
    """Write every owed row to `path`, complete or not at all. Blocks; run it off the loop.

    Identical task lines share a task index and get consecutive rollout indices; a caller's own `_ng_task_index` is
    kept. Raises ConfigurationError for an agent without a number of repeats, ArtifactError where writing fails.
    """
    overrides = _raw_fields(config.responses_create_params)
    rows = MaterializedRows(path)
    task_of_content: dict[bytes, int] = {}
    rollouts_of_task: Counter[int] = Counter()
    scratch = path.with_name(path.name + ".writing")
    try:
        with scratch.open("wb", buffering=1 << 20) as file:
            for task in task_lines(config.input_jsonl_fpath, config.limit):
                fields = _object_decoder.decode(task.content)
                task_index = task.task_index
                if task_index is None:
                    content_key = hashlib.blake2b(task.content, digest_size=16).digest()
                    task_index = task_of_content.setdefault(content_key, len(task_of_content))
                _apply(fields, task, config, overrides)
                labels = RowLabels.of(fields["agent_ref"], fields.get("tags"))
                for _ in range(_repeats(config, task, fields)):
                    rollout_index = rollouts_of_task[task_index]
                    rollouts_of_task[task_index] += 1
                    try:
                        line = _stamped(fields, task_index, rollout_index, config.num_repeats_add_seed)
                    except (ValueError, TypeError) as error:
                        where = f"{config.input_jsonl_fpath}: line {task.number}"
                        raise ConfigurationError(f"{where}: takes no seed (num_repeats_add_seed): {error}") from error
                    line = unmask_lone_surrogates(line) if task.masked else line
                    rows.add(rows.size_bytes, (task_index, rollout_index), labels)
                    rows.size_bytes += file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror}", path=str(path)) from error
    finally:
        scratch.unlink(missing_ok=True)
    return rows


def load_materialized(path: Path, *, size_bytes: int, owed: int) -> MaterializedRows:
    """Index the file of an earlier start of the run. Raises ConfigurationError where it is not that file, whole."""
    try:
        found = path.stat().st_size
    except OSError as error:
        raise ConfigurationError(f"nothing to resume: cannot read {path} ({error.strerror})") from error
    if found != size_bytes:
        raise ConfigurationError(f"cannot resume: {path} has {found:,} bytes, the manifest says {size_bytes:,}")
    rows = MaterializedRows(path, size_bytes=size_bytes)
    for line in read_lines(path):
        try:
            identity, _ = decode_masking(line.content, _identity_decoder)
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"cannot resume: {path} line {line.number}: {error}") from error
        labels = RowLabels.of(identity.agent_ref, identity.tags)
        rows.add(line.offset, (identity.task_index, identity.rollout_index), labels)
    if len(rows) != owed:
        raise ConfigurationError(f"cannot resume: {path} holds {len(rows)} rows, the manifest says {owed}")
    return rows


def dispatch_order(rows: MaterializedRows, *, interleave: bool) -> Iterator[int]:
    """Positions in the order of dispatch: the file's (aabbcc), or by rollout index (abcabc)."""
    positions = range(len(rows))
    if not interleave:
        return iter(positions)
    return iter(sorted(positions, key=rows.rollout_indices.__getitem__))


def _raw_fields(values: dict[str, Any]) -> _RawObject:
    return {name: msgspec.Raw(jsonx.dumps(value)) for name, value in values.items()}


def _apply(fields: _RawObject, task: TaskLine, config: RolloutCollectionConfig, overrides: _RawObject) -> None:
    if overrides:
        params = _object_decoder.decode(fields["responses_create_params"]) | overrides
        fields["responses_create_params"] = msgspec.Raw(_encoder.encode(params))
    if task.agent is None:
        agent = AgentRef(config.agent_name or BUILT_IN_AGENT)
        fields["agent_ref"] = msgspec.Raw(_encoder.encode(agent))
    if task.env is None and config.env is not None:
        fields["env"] = msgspec.Raw(_encoder.encode(config.env))


def _repeats(config: RolloutCollectionConfig, task: TaskLine, fields: _RawObject) -> int:
    if isinstance(config.num_repeats, int):
        return config.num_repeats
    agent = task.agent or msgspec.json.decode(fields["agent_ref"], type=AgentRef).name
    repeats = config.num_repeats.get(agent, config.num_repeats.get("_default"))
    if repeats is None:
        raise ConfigurationError(
            f"num_repeats has no number for the agent {agent!r} (line {task.number}) and no _default; "
            f"it names {', '.join(sorted(config.num_repeats))}"
        )
    return repeats


def _stamped(fields: _RawObject, task_index: int, rollout_index: int, add_seed: bool) -> bytes:
    fields["_ng_task_index"] = msgspec.Raw(b"%d" % task_index)
    fields["_ng_rollout_index"] = msgspec.Raw(b"%d" % rollout_index)
    line = _encoder.encode(_with_seed(fields, rollout_index) if add_seed else fields)
    # A task line may hold line ends between its tokens no more than the file may; `format` takes them out.
    return line if b"\n" not in line and b"\r" not in line else msgspec.json.format(line, indent=-1)


def _with_seed(fields: _RawObject, seed: int) -> _RawObject:
    """A copy whose `metadata.extra_body` (JSON text, as vLLM's model servers read it) holds the seed.

    Raises ValueError where there is a `metadata` or an `extra_body` that cannot hold one.
    """
    params = _object_decoder.decode(fields["responses_create_params"])
    metadata = jsonx.loads(bytes(params.get("metadata", _NULL))) or {}
    extra_body = jsonx.loads(metadata.get("extra_body") or "{}") if isinstance(metadata, dict) else None
    if not isinstance(extra_body, dict):
        raise ValueError("metadata must be an object, and its extra_body the JSON text of one")
    metadata["extra_body"] = jsonx.dumps({**extra_body, "seed": seed}).decode()
    params["metadata"] = msgspec.Raw(jsonx.dumps(metadata))
    return {**fields, "responses_create_params": msgspec.Raw(_encoder.encode(params))}
