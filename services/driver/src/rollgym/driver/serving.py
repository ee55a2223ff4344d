"""The serving entry point: head in this process, env-bundle and resources as its children, all gone at the end.

A child's standard input is a pipe from this process: when it closes, which it does however this process ends, the
child stops by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvicorn

from rollgym.common.binding import address, bind, url_of
from rollgym.common.errors import ConfigurationError
from rollgym.common.logs import get_logger
from rollgym.common.service import UvicornServer
from rollgym.common.tls import tls_context
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.errors import ServeError
from rollgym.head.app import IN_MEMORY, HeadSettings, create_app

STOP_TIMEOUT_S = 3.0
KILL_AFTER_S = STOP_TIMEOUT_S + 4.0
_LOG_LINES_SHOWN = 12
_LISTENING = re.compile(rb" listening on (http://\S+)\s")
_OTHERS_TOKENS = frozenset({"ROLLGYM_ENV_BUNDLE_TOKEN", "ROLLGYM_RESOURCES_TOKEN"})
"""Meant for servers that others reach; here only this process does."""

log = get_logger(__name__)


@dataclass
class Child:
    """One server process. Its log is a file beside the results."""

    name: str
    process: asyncio.subprocess.Process
    log_path: Path
    url: str = ""
    _known: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it listens, or will no more."""

    def last_lines(self) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in lines[-_LOG_LINES_SHOWN:])

    async def listening(self) -> str:
        """The URL that it says it listens on. Raises ServeError where it ends before it says so."""
        await self._known.wait()
        if not self.url:
            raise self.ended_early()
        return self.url

    def ended_early(self) -> ServeError:
        """The error for a process that ended before it was ready: its code, and the end of its log."""
        code, lines = self.process.returncode, self.last_lines()
        return ServeError(f"{self.name} ended with code {code} before it was ready; its log:\n{lines}")

    async def follow(self) -> None:
        """Take its output into its log, since an environment may print; returns when the process has ended."""
        assert self.process.stdout is not None
        said = b""
        while chunk := await self.process.stdout.read(1 << 16):
            self._keep(chunk)
            if not self.url:
                said = (said + chunk)[-(1 << 16) :]
                if found := _LISTENING.search(said):
                    self.url = found[1].decode()
                    self._known.set()
        await self.process.wait()
        self._known.set()

    def _keep(self, said: bytes) -> None:
        with contextlib.suppress(OSError), self.log_path.open("ab") as file:
            file.write(said)

    async def stop(self) -> None:
        """Close its input, which asks it to stop; kill it where that is not enough."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(KILL_AFTER_S):
                await self.process.wait()
        except TimeoutError:
            log.warning("a server did not stop in time and was killed", server=self.name)
            self.process.kill()
            await self.process.wait()


@contextlib.asynccontextmanager
async def serving_head() -> AsyncIterator[str]:
    """The head inside this process, on a free port of loopback; yields its URL."""
    listener = bind("127.0.0.1", 0)
    app = create_app(HeadSettings(database=IN_MEMORY, head_url=None, token=None))
    server = UvicornServer(
        uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1, server_header=False)
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="head")
    try:
        yield url_of(*address(listener))
    finally:
        app.state.service.on_stop()
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def serving_everything(config: RolloutCollectionConfig) -> AsyncIterator[str]:
    """Head, env-bundle and resources, ready to be used; yields the head's URL.

    They listen on loopback for this run alone and ask for no token. Raises ServeError naming the server that did not
    start, with its exit code and the end of its log.
    """
    logs = ArtifactPaths(config.output_jsonl_fpath).logs
    logs.mkdir(parents=True, exist_ok=True)
    if not config.resume_from_cache:  # a resumed run keeps what the servers of its earlier starts said
        for log_path in logs.glob("*.log"):
            log_path.unlink()
    async with contextlib.AsyncExitStack() as stack:
        head_url = await stack.enter_async_context(serving_head())
        common = ["--port", "0", "--head", head_url, "--exit-with-parent", "--stop-timeout", f"{STOP_TIMEOUT_S:g}"]
        starting = "env-bundle"
        try:
            async with asyncio.timeout(config.serve.start_timeout_s):
                envs = dict(config.serve.envs)
                if config.serve.env_bundle:
                    words = ["gym-env-bundle", "serve", *common, *config.serve.env_bundle_args]
                    bundle = await stack.enter_async_context(_child(starting, words, logs))
                    envs = {**await _environments(await bundle.listening()), **envs}
                starting = "resources"
                flags = [word for name, url in envs.items() for word in ("--env", f"{name}={url}")]
                words = ["gym-resources", "serve", *common, *flags, *config.serve.resources_args]
                resources = await stack.enter_async_context(_child(starting, words, logs))
                await resources.listening()
                await _registered(head_url, resources)
        except TimeoutError as error:
            waited = f"{config.serve.start_timeout_s:g} s (serve.start_timeout_s)"
            raise ServeError(f"{starting} was not ready within {waited}; see {logs}") from error
        yield head_url


async def _environments(bundle_url: str) -> dict[str, str]:
    """Names and URLs of the environments that an env-bundle serves."""
    async with httpx.AsyncClient(trust_env=False, verify=tls_context(bundle_url)) as http:
        served = (await http.get(f"{bundle_url}/")).json()["environments"]
    return {environment["name"]: f"{bundle_url}/{environment['name']}" for environment in served}


async def _registered(head_url: str, resources: Child) -> None:
    """Returns when the head knows `resources`. Raises ServeError where that ends before."""
    async with httpx.AsyncClient(trust_env=False, verify=tls_context(head_url)) as http:
        while True:
            servers = (await http.get(f"{head_url}/v1/servers")).json()["servers"]
            if any(server["url"] == resources.url for server in servers):
                return
            if resources.process.returncode is not None:
                raise resources.ended_early()
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def _child(name: str, words: Sequence[str], logs: Path) -> AsyncIterator[Child]:
    """A server process, stopped at the end of the block; its early death is said aloud."""
    log_path = logs / f"{name}.log"
    own = {name: value for name, value in os.environ.items() if name not in _OTHERS_TOKENS}
    with log_path.open("ab") as log_file:
        process = await asyncio.create_subprocess_exec(
            *_command(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env=own,
            start_new_session=True,  # an interrupt at the terminal is the driver's to pass on
        )
    child = Child(name, process, log_path)
    stopping = asyncio.Event()
    watch = asyncio.create_task(_watch(child, stopping), name=f"{name}-watch")
    try:
        yield child
    finally:
        stopping.set()
        await child.stop()
        await watch


async def _watch(child: Child, stopping: asyncio.Event) -> None:
    await child.follow()
    if not stopping.is_set():
        log.error(
            "a server of this run died; rollouts that need it will fail",
            server=child.name,
            exit_code=child.process.returncode,
            log=str(child.log_path),
        )


def _command(words: Sequence[str]) -> list[str]:
    """The command of the same installation as this one, else the one on PATH."""
    beside = Path(sys.executable).with_name(words[0])
    found = str(beside) if beside.exists() else shutil.which(words[0])
    if found is None:
        raise ConfigurationError(
            f"{words[0]} is not installed: install rollgym-driver[serve], or use --no-serve with running servers"
        )
    return [found, *words[1:]]
