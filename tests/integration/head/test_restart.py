"""What a stop, a kill and a second start leave: the runs, and servers that come back by themselves."""

import asyncio
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from processes import running_sync
from waiting import eventually

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=["SIGTERM", "SIGINT", "kill -9"]
)
async def test_answered_reports_survive(
    start: Any, client: httpx.AsyncClient, report: Make, database: Path, number: int
) -> None:
    async with start() as head:
        for index in range(20):
            answer = await client.put(f"{head.url}/v1/runs/r{index}", json=report(reward_mean=index / 20))
            assert answer.status_code == 201
        code = await head.stop(number)
        assert code == (-9 if number == signal.SIGKILL else 0), head.log()
    async with start() as head:
        answer = (await client.get(f"{head.url}/v1/runs")).json()
        assert {run["run_id"]: run["reward_mean"] for run in answer["runs"]} == {f"r{i}": i / 20 for i in range(20)}
        assert (await client.put(f"{head.url}/v1/runs/r3", json=report(state="finished"))).json()["revision"] == 2
        assert 'rollgym_run_state{run_id="r3",state="finished"} 1.0' in (await client.get(f"{head.url}/metrics")).text
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_a_kill_amid_reports_tears_none(start: Any, client: httpx.AsyncClient, report: Make) -> None:
    answered: set[str] = set()

    async def send(index: int) -> None:
        try:
            answer = await client.put(f"{head.url}/v1/runs/r{index}", json=report(summary={"text": "x" * 5000}))
        except httpx.HTTPError:
            return
        if answer.status_code == 201:
            answered.add(f"r{index}")

    async with start() as head:
        async with asyncio.TaskGroup() as group:
            sends = [group.create_task(send(index)) for index in range(200)]
            await eventually(lambda: len(answered) >= 20)
            head.send(signal.SIGKILL)
        assert len(sends) == 200
    async with start() as head:
        answer = (await client.get(f"{head.url}/v1/runs?limit=1000")).json()
        kept = {run["run_id"] for run in answer["runs"]}
        assert answered <= kept
        assert all(run["summary"] == {"text": "x" * 5000} for run in answer["runs"])


async def test_a_server_is_back_after_a_restart_by_its_next_heartbeat(
    start: Any, client: httpx.AsyncClient, registration: Make
) -> None:
    async def resources(url: str) -> list[Any]:
        return [s["status"] for s in (await client.get(f"{url}/v1/servers?name=resources")).json()["servers"]]

    async with start() as head:
        body = registration(head.port)
        await client.put(f"{head.url}/v1/servers/resources-1", json=body)
        assert await resources(head.url) == ["up"]
        port = head.port
        await head.stop()
    async with start("--port", str(port)) as head:
        assert await resources(head.url) == []
        await client.put(f"{head.url}/v1/servers/resources-1", json=body)
        assert await resources(head.url) == ["up"]


def test_a_database_that_is_none_is_refused_before_anything_listens(database: Path) -> None:
    database.write_text("these are notes, " * 50)
    refused = r"ended with 2\n[^{]*cannot use .*head\.sqlite3"
    with (
        pytest.raises(pytest.fail.Exception, match=refused),
        running_sync("gym-head", "serve", "--port", "0", "--database", str(database)),
    ):
        pass
    assert database.read_text().startswith("these are notes")


async def test_two_heads_may_share_a_history(start: Any, client: httpx.AsyncClient, report: Make) -> None:
    async with start() as one, start() as other:
        await asyncio.gather(*(client.put(f"{(one, other)[i % 2].url}/v1/runs/r{i}", json=report()) for i in range(40)))
        for head in (one, other):
            assert (await client.get(f"{head.url}/v1/runs")).json()["total"] == 40
