"""The processes of a simulation: started, asked, watched through /proc, always stopped."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import httpx

from rollgym.common.errors import RollgymError
from rollgym.common.tls import tls_context

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
_LISTENING = re.compile(rb"listening on (https?://\S+)")
_ERROR_CHARACTERS = 2000


class SimulationError(RollgymError):
    """A part of the simulation did not do its work; the message names it."""


@dataclass
class ServerProcess:
    """A server that listens."""

    name: str
    pid: int
    url: str

    def stat(self) -> dict[str, Any]:
        """What it counted. Raises SimulationError where it does not answer."""
        try:
            verify = tls_context(self.url)
            answer: dict[str, Any] = httpx.get(f"{self.url}/stat", timeout=30.0, trust_env=False, verify=verify).json()
        except (httpx.HTTPError, ValueError) as error:
            raise SimulationError(f"{self.name} at {self.url} does not tell what it did: {error}") from error
        return answer

    def cpu_s(self) -> float:
        """Seconds of CPU so far; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def module_command(module: str, *flags: str) -> list[str]:
    """A module of this package as a command of this Python."""
    return [sys.executable, "-m", f"rollgym.driver.simulate.{module}", "--exit-with-parent", *flags]


def service_command(name: str, *flags: str) -> list[str]:
    """One of Rollgym's services. Raises SimulationError where it is not installed."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise SimulationError(
            f"{name} is not installed: the built-in agent's row needs rollgym-driver[serve], or --built-in-rollouts 0"
        )
    return [found, "serve", "--port", "0", "--exit-with-parent", *flags]


@contextlib.contextmanager
def serving(name: str, command: Sequence[str]) -> Iterator[ServerProcess]:
    """A server process while the block runs. Raises SimulationError, with its last words, if it does not start."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield ServerProcess(name, process.pid, _url(name, process, errors))
        finally:
            stop(process)


def stop(process: subprocess.Popen[Any]) -> None:
    """SIGTERM, then SIGKILL where that is not enough."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_words(errors: IO[bytes]) -> str:
    """The end of what a process wrote to a file."""
    errors.seek(0)
    return errors.read().decode(errors="replace").strip()[-_ERROR_CHARACTERS:]


def _url(name: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    assert process.stdout is not None
    deadline, said = time.monotonic() + START_TIMEOUT_S, b""
    while (left_s := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([process.stdout], [], [], left_s)
        if not ready or not (more := os.read(process.stdout.fileno(), 4096)):
            break
        said += more
        if found := _LISTENING.search(said):
            return found[1].decode()
    raise SimulationError(f"{name} did not start to listen: {last_words(errors)}")


class MachineCpu(NamedTuple):
    """Seconds of all of this machine's CPUs since it started; zeros where the system does not tell."""

    busy_s: float = 0.0
    stolen_s: float = 0.0
    """A virtual machine's: it could have run, and its host ran others. Part of the busy ones."""
    all_s: float = 0.0


def machine_cpu(stat: Path = Path("/proc/stat")) -> MachineCpu:
    try:
        ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return MachineCpu()
    idle, waiting, stolen = ticks[3], ticks[4], ticks[7]
    hertz = os.sysconf("SC_CLK_TCK")
    return MachineCpu((sum(ticks) - idle - waiting) / hertz, stolen / hertz, sum(ticks) / hertz)
