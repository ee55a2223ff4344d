"""Event streams over real sockets, and that nothing that is open holds the head's stop."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from processes import RunningCommand
from waiting import eventually

Make = Callable[..., dict[str, Any]]


async def events(client: httpx.AsyncClient, url: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """(kind, data) of each event until the stream ends."""
    kind = ""
    async with client.stream("GET", url) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


async def open_streams(client: httpx.AsyncClient, head: Any) -> int:
    lines = (await client.get(f"{head.url}/metrics")).text.splitlines()
    (count,) = (float(line.split()[-1]) for line in lines if line.startswith("rollgym_head_event_streams "))
    return int(count)


async def test_a_watcher_sees_each_report_and_the_end(
    shared_head: RunningCommand, client: httpx.AsyncClient, report: Make
) -> None:
    async with asyncio.timeout(30):
        url = f"{shared_head.url}/v1/runs/reports"
        await client.put(url, json=report())
        seen = []
        async for kind, run in events(client, f"{url}/events"):
            seen.append((kind, run["counts"]["succeeded"], run["state"]))
            if kind == "update" and run["state"] == "running":
                count = run["counts"]["succeeded"] + 1
                state = "finished" if count == 4 else "running"
                await client.put(url, json=report(counts={"succeeded": count}, state=state))
        assert seen == [
            ("update", 1, "running"),
            ("update", 2, "running"),
            ("update", 3, "running"),
            ("update", 4, "finished"),
            ("end", 4, "finished"),
        ]


async def test_a_watcher_is_told_that_a_run_died(
    shared_head: RunningCommand, client: httpx.AsyncClient, report: Make
) -> None:
    async with asyncio.timeout(30):
        url = f"{shared_head.url}/v1/runs/dies"
        await client.put(url, json=report(ttl_s=0.3))
        async for _, run in events(client, f"{url}/events"):
            if run["state"] == "lost":
                break


async def test_a_watcher_that_leaves_is_forgotten(
    shared_head: RunningCommand, client: httpx.AsyncClient, report: Make
) -> None:
    async with asyncio.timeout(30):
        url = f"{shared_head.url}/v1/runs/left"
        await client.put(url, json=report(ttl_s=1000))
        async with client.stream("GET", f"{url}/events"):
            assert await eventually(lambda: open_streams(client, shared_head)) == 1

        async def nobody_watches() -> bool:
            return await open_streams(client, shared_head) == 0

        await eventually(nobody_watches, 15)


async def test_open_streams_do_not_hold_the_stop(start: Any, client: httpx.AsyncClient, report: Make) -> None:
    watchers = 20

    async def watch(url: str) -> None:
        async for _ in events(client, url):
            pass

    async with start("--stop-timeout", "60") as head, asyncio.timeout(60):
        url = f"{head.url}/v1/runs/r1"
        await client.put(url, json=report(ttl_s=1000))
        async with asyncio.TaskGroup() as group:
            for _ in range(watchers):
                group.create_task(watch(f"{url}/events"))

            async def all_watch() -> bool:
                return await open_streams(client, head) == watchers

            await eventually(all_watch)
            begun = time.monotonic()
            code = await head.stop(timeout_s=20)
        # Without an end of its own, a stream would be cut only after half of the minute that the stop may take.
        assert time.monotonic() - begun < 20
        assert code == 0
        assert "Traceback" not in head.log()


async def test_idle_connections_and_half_sent_requests_do_not_hold_the_stop(start: Any) -> None:
    async with start("--stop-timeout", "4") as head:
        idle = await asyncio.open_connection("127.0.0.1", head.port)
        half = await asyncio.open_connection("127.0.0.1", head.port)
        half[1].write(b"PUT /v1/runs/r1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await half[1].drain()
        code = await head.stop(timeout_s=10)
        for _, writer in (idle, half):
            writer.close()
        assert code == 0, head.log()
