"""Service commands as real processes: started, read until they listen, always stopped.

async with running("gym-env-bundle", "serve", "--port", "0") as bundle:
    ... bundle.url ... bundle.log() ... await bundle.stop()
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from waiting import wait_until

Environment = Mapping[str, str] | None
LISTENING = re.compile(r"listening on (https?://\S+)")


def command_path(name: str) -> str:
    """The command of the virtual environment that runs the tests, else the one on PATH."""
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else name


class RunningCommand:
    """One child process in a process group of its own; its output goes to files, so that it never blocks on a pipe."""

    def __init__(self, argv: tuple[str, ...], *, env: Environment = None, cwd: Path | None = None) -> None:
        self.argv = argv
        self.url = ""
        self._folder = tempfile.TemporaryDirectory(prefix=f"{argv[0]}-")
        self._stdout, self._stderr = (Path(self._folder.name) / name for name in ("stdout", "stderr"))
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [command_path(argv[0]), *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def output(self) -> str:
        """Everything on stdout so far."""
        return self._stdout.read_text(errors="replace")

    def log(self) -> str:
        """Everything on stderr so far: the JSON log lines of a service."""
        return self._stderr.read_text(errors="replace")

    def wait_listening(self, timeout_s: float = 20.0) -> str:
        """Wait for `<name> listening on URL` on stdout; fails with the command's output when it ends before that."""
        self.url = wait_until(self._find_url, timeout_s)
        return self.url

    def _find_url(self) -> str:
        if found := LISTENING.search(self.output()):
            return found[1]
        if (code := self.process.poll()) is not None:
            pytest.fail(f"{' '.join(self.argv)} ended with {code}\n{self.output()}\n{self.log()}", pytrace=False)
        return ""

    def send(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, timeout_s: float = 15.0) -> int:
        """The exit code; subprocess.TimeoutExpired past `timeout_s`."""
        return self.process.wait(timeout_s)

    async def stop(self, number: int = signal.SIGTERM, timeout_s: float = 15.0) -> int:
        """Signal, then wait for the exit code without blocking the loop."""
        self.send(number)
        return await asyncio.to_thread(self.wait, timeout_s)

    def close(self) -> None:
        """Whatever happened, nothing of this command stays: SIGTERM, then SIGKILL to the whole group."""
        try:
            self.send()
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        finally:
            self._folder.cleanup()


@contextmanager
def running_sync(*argv: str, env: Environment = None, cwd: Path | None = None) -> Iterator[RunningCommand]:
    """A service command that listens; for tests without an event loop."""
    command = RunningCommand(argv, env=env, cwd=cwd)
    try:
        command.wait_listening()
        yield command
    finally:
        command.close()


@asynccontextmanager
async def running(*argv: str, env: Environment = None, cwd: Path | None = None) -> AsyncIterator[RunningCommand]:
    """A service command that listens; starting and stopping leave the test's event loop free."""
    command = RunningCommand(argv, env=env, cwd=cwd)
    try:
        await asyncio.to_thread(command.wait_listening)
        yield command
    finally:
        await asyncio.to_thread(command.close)
