"""Heads as real processes, and the clients that talk to them."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from plain_http import PLAIN
from processes import RunningCommand, running, running_sync

Heads = Callable[..., AbstractAsyncContextManager[RunningCommand]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "head.sqlite3"


@pytest.fixture
def start(database: Path) -> Heads:
    """Starts a head over the test's own database; more flags may follow."""
    return lambda *flags: running("gym-head", "serve", "--port", "0", "--database", str(database), *flags)


@pytest.fixture(scope="module")
def shared_head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCommand]:
    """One head for the tests of a module that leave it running; each has servers and runs by names of its own."""
    database = tmp_path_factory.mktemp("shared") / "head.sqlite3"
    flags = ("--database", str(database), "--max-body-bytes", "65536")
    with running_sync("gym-head", "serve", "--port", "0", *flags) as head:
        yield head


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=20, trust_env=False, verify=PLAIN) as client:
        yield client


@pytest.fixture
def report() -> Callable[..., dict[str, Any]]:
    """The body of a driver's report."""

    def make(**changes: Any) -> dict[str, Any]:
        body = {"name": "a run", "state": "running", "started_at": time.time(), "owed": 10, "counts": {"succeeded": 1}}
        return body | changes

    return make


@pytest.fixture
def registration() -> Callable[..., dict[str, Any]]:
    """The body of a heartbeat."""

    def make(port: int, **changes: Any) -> dict[str, Any]:
        body = {
            "name": "resources",
            "server_type": "resources_servers",
            "host": "127.0.0.1",
            "port": port,
            "url": f"http://127.0.0.1:{port}",
            "started_at": time.time(),
        }
        return body | changes

    return make
