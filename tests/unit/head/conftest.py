"""A head without sockets: its application called in this process, its clocks turned by hand."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from rollgym.common.registration import ServerRegistration
from rollgym.head.app import IN_MEMORY, HeadSettings, create_app
from rollgym.head.registry import Registry

START = 1_800_000_000.0


@dataclass
class Clock:
    """One time for both of the head's clocks."""

    now: float = START

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class HeadUnderTest:
    """`client` calls the application; `clock` is its time."""

    client: httpx.AsyncClient
    clock: Clock
    service: Any
    settings: HeadSettings = field(repr=False)

    async def json(self, path: str) -> Any:
        answer = await self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def register(self, instance_id: str, /, **changes: Any) -> httpx.Response:
        return await self.client.put(f"/v1/servers/{instance_id}", json=registration_body(**changes))

    async def report(self, run_id: str, /, **changes: Any) -> httpx.Response:
        return await self.client.put(f"/v1/runs/{run_id}", json=report_body(**changes))

    async def page(self, path: str) -> httpx.Response:
        return await self.client.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})


def registration_body(**changes: Any) -> dict[str, Any]:
    body = {
        "name": "resources",
        "server_type": "resources_servers",
        "implementation": "rollgym",
        "host": "10.0.0.7",
        "port": 8300,
        "url": "http://10.0.0.7:8300",
        "pid": 41,
        "started_at": START - 100,
        "ttl_s": 15,
        "metadata": {"envs": ["gridsim"]},
    }
    return body | changes


def report_body(**changes: Any) -> dict[str, Any]:
    body = {
        "name": "gridsim nightly",
        "state": "running",
        "started_at": START - 60,
        "ended_at": None,
        "ttl_s": 20,
        "owed": 200,
        "counts": {
            "succeeded": 88,
            "failed": 4,
            "drained": 0,
            "cancelled": 0,
            "in_flight": 16,
            "pending": 90,
            "masked": 2,
        },
        "reward_mean": 0.625,
        "rollouts_per_hour": 5400,
        "latency_s": {"p50": 1.5, "p90": 2.5, "p99": 9.25, "max": 10.0},
        "failures": {"env_busy": 3, "model_error": 1},
        "output": "results/out.jsonl",
        "host": "box",
    }
    return body | changes


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registration() -> Callable[..., ServerRegistration]:
    return lambda **changes: ServerRegistration.model_validate(registration_body(**changes))


@pytest.fixture
def report() -> Callable[..., dict[str, Any]]:
    return report_body


@pytest.fixture
def registry(clock: Clock) -> Registry:
    return Registry(clock=clock, wall=clock)


@pytest.fixture
def settings() -> HeadSettings:
    """Overridden by the modules that test other settings."""
    # Looks at ports are what the integration tests are for: nothing here listens at the addresses that are registered.
    return HeadSettings(database=IN_MEMORY, probe_interval_s=60)


@pytest.fixture
async def head(settings: HeadSettings, clock: Clock) -> AsyncIterator[HeadUnderTest]:
    app = create_app(settings, clock=clock, wall=clock)
    transport = httpx.ASGITransport(app, client=("10.0.0.9", 50000))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:11000") as client,
    ):
        yield HeadUnderTest(client, clock, app.state.service, settings)
