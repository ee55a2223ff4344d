"""One run of the real driver in a process of its own, measured from outside by the probe."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.simulate import probe
from rollgym.driver.simulate.processes import SimulationError, last_words, stop

GYM = ("-m", "rollgym.driver.cli")


@dataclass(frozen=True)
class DriverEnd:
    """How a measured program ended: what the probe saw, what it printed, its exit code."""

    exit_code: int
    seen: dict[str, Any]
    printed: str
    errors: str

    def summary(self) -> dict[str, Any]:
        """The summary that `gym eval run --json` printed. Raises SimulationError where it printed none."""
        try:
            summary: dict[str, Any] = json.loads(self.printed)
        except ValueError as error:
            raise SimulationError(f"the driver exited {self.exit_code} without a summary: {self.errors}") from error
        return summary


@dataclass(frozen=True)
class DriverRun:
    """A `gym eval run --no-serve` to come."""

    head_url: str
    inputs: Path
    output: Path
    repeats: int
    concurrency: int
    overrides: tuple[str, ...] = ()

    @property
    def paths(self) -> ArtifactPaths:
        return ArtifactPaths(self.output)

    def words(self) -> list[str]:
        """The command. Aggregation is left out: what is measured is collection."""
        flags = {
            "--head": self.head_url,
            "--input": self.inputs,
            "--output": self.output,
            "--num-repeats": self.repeats,
            "--concurrency": self.concurrency,
        }
        settings = ("observability_enabled=true", "capture_payloads=true", "disable_aggregation=true", "metrics_port=0")
        return [
            *(*GYM, "eval", "run", "--no-serve", "--json"),
            *(str(word) for flag in flags.items() for word in flag),
            *(f"++{setting}" for setting in settings),
            *self.overrides,
        ]


def run_measured(
    words: Sequence[str], *, timeout_s: float, hold_gc: bool = False, python: str = sys.executable
) -> DriverEnd:
    """Run a Python program under the probe. Raises SimulationError where it takes too long or the probe saw nothing."""
    with tempfile.TemporaryDirectory(prefix="rollgym-probe-") as folder:
        out = Path(folder) / "seen.json"
        held = ["--hold-gc"] if hold_gc else []
        command = [python, "-P", str(probe.__file__), "--out", str(out), *held, *words]
        began = time.monotonic()
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors)
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired as error:
                stop(process)
                took_s = time.monotonic() - began
                raise SimulationError(f"the driver was stopped after {took_s:.0f} s: {last_words(errors)}") from error
            finally:
                if process.poll() is None:
                    stop(process)
            if not out.exists():
                raise SimulationError(f"the driver exited {code} and was not measured: {last_words(errors)}")
            printed.seek(0)
            return DriverEnd(code, json.loads(out.read_text()), printed.read().decode(), last_words(errors))
