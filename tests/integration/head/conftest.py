"""Heads as real processes, and the clients that talk to them."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from processes import RunningCommand, running

Heads = Callable[..., AbstractAsyncContextManager[RunningCommand]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "head.sqlite3"


@pytest.fixture
def start(database: Path) -> Heads:
    """Starts a head over the test's own database; more flags may follow."""
    return lambda *flags: running("gym-head", "serve", "--port", "0", "--database", str(database), *flags)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
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
