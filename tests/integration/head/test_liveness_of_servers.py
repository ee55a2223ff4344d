"""Busy, stopped and dead processes seen by a real head: one is kept, one told apart, one is gone."""

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from processes import running
from rollgym.head.probing import refuses
from waiting import eventually

Make = Callable[..., dict[str, Any]]


async def status_of(client: httpx.AsyncClient, head: Any, name: str) -> tuple[str, str | None]:
    (server,) = (await client.get(f"{head.url}/v1/servers", params={"name": name})).json()["servers"]
    return server["status"], server["reason"]


async def test_a_killed_server_is_gone_within_5_seconds(
    start: Any, client: httpx.AsyncClient, registration: Make
) -> None:
    # Any process that listens will do; a second head has the right shape.
    async with start() as head, running("gym-head", "serve", "--port", "0", "--database", ":memory:") as server:
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
    async with (
        start("--probe-interval", "0.1") as head,
        running("gym-head", "serve", "--port", "0", "--database", ":memory:") as server,
    ):
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


async def test_many_servers_heartbeat_at_once(start: Any, client: httpx.AsyncClient, registration: Make) -> None:
    async with start() as head:
        answers = await asyncio.gather(
            *(
                client.put(f"{head.url}/v1/servers/resources-{index % 50}", json=registration(head.port))
                for index in range(400)
            )
        )
        assert sorted({answer.status_code for answer in answers}) == [200, 201]
        assert sum(answer.status_code == 201 for answer in answers) == 50
        assert len((await client.get(f"{head.url}/v1/servers?status=up")).json()["servers"]) == 51


async def test_many_reports_of_one_run_are_each_taken_whole(
    start: Any, client: httpx.AsyncClient, report: Make
) -> None:
    async with start() as head:
        answers = await asyncio.gather(
            *(
                client.put(f"{head.url}/v1/runs/r1", json=report(owed=index, counts={"succeeded": index}))
                for index in range(200)
            )
        )
        assert sorted(answer.json()["revision"] for answer in answers) == list(range(1, 201))
        run = (await client.get(f"{head.url}/v1/runs/r1")).json()
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
