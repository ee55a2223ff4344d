"""The processes that a benchmark measures: started, watched through /proc, always stopped."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LISTENING = re.compile(r"listening on (https?://\S+)")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Measured:
    """A running process, its URL, and what the kernel says of it."""

    pid: int
    url: str

    def cpu_s(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def rss_bytes(self) -> int:
        """Resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(*argv: str, timeout_s: float = 30.0) -> Iterator[Measured]:
    """A command that says where it listens; stopped, and then killed if need be, at the end."""
    command = list(argv)
    own = Path(sys.executable).with_name(Path(command[0]).name)
    command[0] = str(own) if own.exists() else command[0]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            yield Measured(process.pid, _url(process, out, err, timeout_s))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _url(process: subprocess.Popen[bytes], out: object, err: object, timeout_s: float) -> str:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        said = os.pread(out.fileno(), 4096, 0).decode()  # type: ignore[attr-defined]  # TemporaryFile has no type
        if found := LISTENING.search(said):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.02)
    said = os.pread(err.fileno(), 20_000, 0).decode()  # type: ignore[attr-defined]
    raise RuntimeError(f"{process.args!r} did not start to listen\n{said}")
