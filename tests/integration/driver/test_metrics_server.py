"""The driver's own `/metrics`: what it answers, and that a client which stays does not hold up its end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from plain_http import PLAIN
from rollgym.common.binding import address, bind, url_of
from rollgym.driver.metrics_server import metrics_server


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with bind("127.0.0.1", 0) as bound:
        yield bound


@pytest.fixture
async def client(listener: socket.socket) -> AsyncIterator[httpx.AsyncClient]:
    registry = CollectorRegistry()
    Counter("seen", "Things seen", registry=registry).inc(3)
    base = url_of(*address(listener))
    async with (
        metrics_server(listener, registry),
        httpx.AsyncClient(base_url=base, trust_env=False, verify=PLAIN) as client,
    ):
        yield client


async def test_it_serves_the_registry_as_prometheus_reads_it(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "seen_total 3.0" in answer.text.splitlines()


async def test_it_says_that_it_is_up_and_not_what_it_is_made_of(client: httpx.AsyncClient) -> None:
    root, health, ready = [await client.get(path) for path in ("/", "/health", "/ready")]
    assert root.json() == {"service": "driver", "server_type": "driver", "status": "up"}
    assert (health.json()["status"], health.json()["service"]) == ("healthy", "driver")
    assert ready.json() == {"status": "ready", "checks": {}}
    assert [(answer.status_code, answer.headers.get("server")) for answer in (root, health, ready)] == [(200, None)] * 3


async def test_what_it_does_not_serve_is_404_and_405(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/runs")).status_code == 404
    assert (await client.post("/metrics")).status_code == 405


async def test_a_client_that_stays_does_not_hold_up_the_end(listener: socket.socket) -> None:
    async with metrics_server(listener, CollectorRegistry()):
        reader, writer = await asyncio.open_connection(*address(listener))
        writer.write(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /metrics HTTP/1.1\r\n")  # the rest never comes
    try:
        async with asyncio.timeout(5):
            await reader.read()
    finally:
        writer.close()


async def test_its_socket_is_closed_where_it_cannot_start(listener: socket.socket) -> None:
    listener.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        async with metrics_server(listener, CollectorRegistry()):
            pytest.fail("it cannot serve on a closed socket")
