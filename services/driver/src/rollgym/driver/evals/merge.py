"""Shards made into one run: results in order of task and rollout, and the companions that go with them.

Lines are copied byte for byte. The merged run has no manifest: it can be read, not resumed.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from rollgym.common.errors import ArtifactError, ConfigurationError
from rollgym.driver.artifacts.lines import read_lines
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import RunAggregate, ZeroRules, aggregate
from rollgym.driver.evals.shards import OnDuplicate, Row, index_shards


class _At(msgspec.Struct, gc=False):
    at: float = 0.0


_at_decoder = msgspec.json.Decoder(_At)


def refuse_output(output: ArtifactPaths, runs: Sequence[ArtifactPaths], *, overwrite: bool) -> None:
    """Raise ConfigurationError where the output is a folder or an input, or is there and not to be replaced."""
    if output.results.is_dir():
        raise ConfigurationError(f"--output {output.results} is a folder; name a file in it, such as merged.jsonl")
    target = output.results.resolve()
    if any(run.results.resolve() == target for run in runs):
        raise ConfigurationError(f"--output {output.results} is one of the shards; choose another name")
    there = [path.name for path in output.all_files() if path.exists()]
    if there and not overwrite:
        raise ConfigurationError(f"--output: {', '.join(there)} there already; --overwrite replaces it")


def merge(
    runs: Sequence[ArtifactPaths], output: ArtifactPaths, *, on_duplicate: OnDuplicate, zeros: ZeroRules
) -> RunAggregate:
    """Write the merged artifacts and return the aggregate over them. Blocks.

    Raises ConfigurationError for lines that are no rows and refused duplicates, before anything is replaced.
    """
    try:
        output.results.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(_replacing(output.results))

            def write(row: Row) -> None:
                file.write(row.line + b"\n")

            found = aggregate(runs, on_duplicate=on_duplicate, zeros=zeros, on_row=write)
            inputs = stack.enter_context(_replacing(output.materialized_inputs))
            inputs.writelines(line + b"\n" for line in _materialized(runs, found.remarks))
            failures = stack.enter_context(_replacing(output.failures))
            failures.writelines(line + b"\n" for run in runs for line in _contents(run.failures))
            journal = stack.enter_context(_replacing(output.journal))
            journal.writelines(line + b"\n" for line in _journals(runs))
        for path in (output.manifest, output.samples):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ArtifactError(f"cannot write {error.filename or output.results}: {error.strerror}") from error
    return found


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all went well, and is not there otherwise."""
    scratch = path.with_name(path.name + ".writing")
    try:
        with scratch.open("wb", buffering=1 << 20) as file:
            yield file
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _materialized(runs: Iterable[ArtifactPaths], remarks: list[str]) -> Iterator[bytes]:
    inputs = [replace(run, results=run.materialized_inputs) for run in runs if run.materialized_inputs.exists()]
    owed = index_shards(inputs, "first")
    remarks += [remark for remark in owed.remarks if "byte for byte" not in remark]
    for _, line in owed.lines():
        yield line


def _journals(runs: Iterable[ArtifactPaths]) -> Iterator[bytes]:
    return heapq.merge(*(_contents(run.journal) for run in runs), key=_at)


def _at(line: bytes) -> float:
    try:
        return _at_decoder.decode(line).at
    except msgspec.DecodeError:
        return 0.0


def _contents(path: Path) -> Iterator[bytes]:
    return (line.content for line in read_lines(path)) if path.exists() else iter(())
