"""The `gym` command as tests run it, in this process or as one of its own, and its files read back."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.driver.stub_agent import AGENT, Key
from processes import Environment, RunningCommand
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.cli import main
from rollgym.driver.config import RolloutCollectionConfig

FAST = ("++retry_backoff_s=0.01", "++metrics_port=0")
UNTUNED = ("++driver_gc_freeze=false", "++driver_gc_thresholds=null")


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def gym(*words: str) -> Ended:
    """Run `gym` in this process and thread."""
    out, err = io.StringIO(), io.StringIO()
    with _logging_restored(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def signal_when(condition: Callable[[], object], *numbers: signal.Signals) -> Iterator[None]:
    """As soon as `condition` holds, send this process the signals, one after the other; never after the block.

    For `gym` in this process: wait for something that only happens while it handles signals.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            with contextlib.suppress(Exception):
                if condition():
                    break
        for number in numbers:
            if not over.is_set():
                os.kill(os.getpid(), number)

    watching = threading.Thread(target=watch, name="signal-when")
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


@contextlib.contextmanager
def gym_process(*words: str, env: Environment = None, cwd: Path | None = None) -> Iterator[RunningCommand]:
    """`gym` as a process of its own; nothing of it stays at the end."""
    command = RunningCommand(("gym", *words), env=env, cwd=cwd)
    try:
        yield command
    finally:
        command.close()


def agent_row(number: int = 0, **fields: Any) -> dict[str, Any]:
    """A task for the stub agent; its number makes it a task of its own."""
    row: dict[str, Any] = {"responses_create_params": {"input": f"task {number}"}, "agent_ref": {"name": AGENT}}
    return row | fields


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@dataclass(frozen=True)
class RunFolder:
    """A folder with one task file and one run's artifacts."""

    folder: Path

    @property
    def input(self) -> Path:
        return self.folder / "tasks.jsonl"

    @property
    def paths(self) -> ArtifactPaths:
        return ArtifactPaths(self.folder / "out" / "rollouts.jsonl")

    def tasks(self, rows: int | Iterable[Any]) -> RunFolder:
        """Write the task file: so many rows for the stub agent, or these."""
        write_rows(self.input, map(agent_row, range(rows)) if isinstance(rows, int) else rows)
        return self

    def words(self, head_url: str, *more: str) -> Sequence[str]:
        files = ("--input", str(self.input), "--output", str(self.paths.results))
        return ("eval", "run", *files, "--no-serve", "--head", head_url, *FAST, *more)

    def config(self, head_url: str, **settings: Any) -> RolloutCollectionConfig:
        """The same run as settings, for the library's way in."""
        files = {"input_jsonl_fpath": self.input, "output_jsonl_fpath": self.paths.results}
        fast = {"head_url": head_url, "metrics_port": None, "retry_backoff_s": 0.01}
        return RolloutCollectionConfig.model_validate(files | fast | settings)

    def run(self, head_url: str, *more: str) -> Ended:
        """Run in this process, whose collector stays as it is: collecting pytest's own heap takes longer than a run."""
        return gym(*self.words(head_url, *UNTUNED, *more))

    def summary(self, head_url: str, *more: str, code: int = 0) -> dict[str, Any]:
        """Run with `--json`, check the exit code, return the summary."""
        ended = self.run(head_url, "--json", *more)
        assert ended.code == code, ended
        found: dict[str, Any] = json.loads(ended.out)
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        return read_rows(self.paths.results)

    @property
    def failures(self) -> list[dict[str, Any]]:
        return read_rows(self.paths.failures)

    @property
    def journal(self) -> list[dict[str, Any]]:
        return read_rows(self.paths.journal)

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.paths.manifest.read_bytes())
        return found


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, each whole and an object; none where there is no file."""
    content = path.read_bytes() if path.exists() else b""
    assert not content or content.endswith(b"\n"), f"{path} ends in a torn line"
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def key_of(row: dict[str, Any]) -> Key:
    return row["_ng_task_index"], row["_ng_rollout_index"]


def keys(rows: Iterable[dict[str, Any]]) -> Counter[Key]:
    """How often each rollout is among the rows."""
    return Counter(map(key_of, rows))
