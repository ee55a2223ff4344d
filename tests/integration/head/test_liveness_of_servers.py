"""Busy, stopped and dead processes seen by a real head: one is kept, one told apart, one is gone."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import httpx
import pytest

from processes import RunningCommand, running
from rollgym.head.probing import refuses
from waiting import eventually

Make = Callable[..., dict[str, Any]]

LISTENING = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(f"a server listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    while True:
        listener.accept()
"""


def listening() -> AbstractAsyncContextManager[RunningCommand]:
    """A process that listens: all that a head asks of a server to know that it lives."""
    return running("python", "-c", LISTENING)


async def status_of(client: httpx.AsyncClient, head: Any, name: str) -> tuple[str, str | None]:
    (server,) = (await client.get(f"{head.url}/v1/servers", params={"name": name})).json()["servers"]
    return server["status"], server["reason"]


async def test_a_killed_server_is_gone_within_5_seconds(
    start: Any, client: httpx.AsyncClient, registration: Make
) -> None:
    async with start() as head, listening() as server:
        await client.put(f"{head.url}/v1/servers/resources-1", json=registration(server.port))
        assert await status_of(client, head, "resources") == ("up", None)
        server.send(signal.SIGKILL)

        async def gone() -> bool:
            return await status_of(client, head, "resources") == ("gone", "connection refused")

        await eventually(gone, 5)
        assert (await client.get(f"{head.url}/server_instances")).json() == []


async def test_a_stopped_server_is_not_responding_and_comes_back(
    start: Any, client: httpx.AsyncClient, registration: Make
) -> None:
    async with start("--probe-interval", "0.1") as head, listening() as server:
        url = f"{head.url}/v1/servers/resources-1"
        await client.put(url, json=registration(server.port, ttl_s=0.5))
        server.send(signal.SIGSTOP)
        try:

            async def silent() -> bool:
                return (await status_of(client, head, "resources"))[0] == "not_responding"

            await eventually(silent)
            targets = (await client.get(f"{head.url}/sd/prometheus")).json()
            assert [target["labels"]["job"] for target in targets] == ["rollgym-head", "rollgym-resources"]
        finally:
            server.send(signal.SIGCONT)
        await client.put(url, json=registration(server.port, ttl_s=60))
        assert await status_of(client, head, "resources") == ("up", None)


async def test_a_service_registers_heartbeats_and_says_goodbye(start: Any, client: httpx.AsyncClient) -> None:
    async with start() as head:
        async with running("gym-env-bundle", "serve", "--port", "0", "--head", head.url) as bundle:

            async def listed() -> bool:
                return await status_of(client, head, "env-bundle") == ("up", None)

            await eventually(listed)
            (server,) = (await client.get(f"{head.url}/v1/servers?name=env-bundle")).json()["servers"]
            assert (server["port"], server["pid"]) == (bundle.port, bundle.pid)
            await bundle.stop()
        assert await status_of(client, head, "env-bundle") == ("gone", "deregistered")


async def put_at_once(bodies: Iterable[tuple[str, dict[str, Any]]]) -> list[tuple[int, Any]]:
    """PUT every (URL, body) on a connection of its own, all at the same time; status and answer of each."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def put(url: str, body: dict[str, Any]) -> tuple[int, Any]:
            async with session.put(url, json=body) as answer:
                return answer.status, await answer.json()

        return await asyncio.gather(*(put(url, body) for url, body in bodies))


async def test_many_servers_heartbeat_at_once(
    shared_head: RunningCommand, client: httpx.AsyncClient, registration: Make
) -> None:
    url = f"{shared_head.url}/v1/servers"
    answers = await put_at_once((f"{url}/resources-{n % 50}", registration(shared_head.port)) for n in range(400))
    assert sorted({status for status, _ in answers}) == [200, 201]
    assert sum(status == 201 for status, _ in answers) == 50
    assert len((await client.get(f"{url}?status=up")).json()["servers"]) == 51


async def test_many_reports_of_one_run_are_each_taken_whole(
    shared_head: RunningCommand, client: httpx.AsyncClient, report: Make
) -> None:
    url = f"{shared_head.url}/v1/runs/r1"
    answers = await put_at_once((url, report(owed=n, counts={"succeeded": n})) for n in range(200))
    assert sorted(answer["revision"] for _, answer in answers) == list(range(1, 201))
    run = (await client.get(url)).json()
    assert run["revision"] == 200
    assert run["owed"] == run["counts"]["succeeded"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_closed_port_refuses(host: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert await refuses(host, port)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "host with spaces", "a" * 300, ""])
async def test_a_name_that_leads_nowhere_proves_nothing(host: str) -> None:
    assert not await refuses(host, 9, timeout_s=5)


async def test_a_port_whose_backlog_is_full_proves_nothing() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        try:
            for _ in range(3):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(("127.0.0.1", port))
            assert not await refuses("127.0.0.1", port, timeout_s=0.3)
        finally:
            for each in waiting:
                each.close()
