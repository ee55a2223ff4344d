"""Load: seed, tool calls, verify at several concurrencies: ours, the bare bridge, a socket straight to the bundle."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvloop
from benchmarks.sessions.processes import Measured, running
from benchmarks.sessions.raw_http import RawClient, as_json, header
from benchmarks.sessions.tables import quantile
from websockets.asyncio.client import connect

CALLS = 10
RESET = b'{"type":"reset","data":{"seed":1}}'
ARGUMENTS = b'{"message":"hello"}'
STEP = b'{"type":"step","data":' + ARGUMENTS + b"}"
ROW = json.dumps({"responses_create_params": {"input": []}, "seed": 1}).encode()
VERIFY = json.dumps({"responses_create_params": {"input": []}, "response": {"id": "r", "output": []}}).encode()

Worker = Callable[[str, float, list[float]], Coroutine[Any, Any, None]]


async def ours(url: str, until: float, latencies: list[float]) -> None:
    """Rollouts one after the other through a resources server."""
    client = await RawClient.connected(url)
    while time.perf_counter() < until:
        status, head, body = await client.post("/seed_session", ROW)
        if status != 200:
            raise RuntimeError(f"seed answered {status}: {body!r}")
        cookie = b"Cookie: " + header(head, b"set-cookie").split(";")[0].encode() + b"\r\n"
        for _ in range(CALLS):
            await _timed(client.post("/step", ARGUMENTS, cookie), latencies)
        status, _, body = await client.post("/verify", VERIFY, cookie)
        if status != 200 or as_json(body)["mask_sample"]:
            raise RuntimeError(f"verify answered {status}: {body!r}")
    client.close()


async def bridged(url: str, until: float, latencies: list[float]) -> None:
    """The same frames through the bare bridge."""
    client = await RawClient.connected(url)
    while time.perf_counter() < until:
        _, head, _ = await client.post("/", RESET)
        path = f"/?s={header(head, b'x-socket')}"
        for _ in range(CALLS):
            await _timed(client.post(path, STEP), latencies)
        await client.post("/close" + path[1:])
    client.close()


async def direct(url: str, until: float, latencies: list[float]) -> None:
    """The same frames on a socket of one's own."""
    while time.perf_counter() < until:
        async with connect(url, compression=None) as ws:
            await ws.send(RESET, text=True)
            await ws.recv()
            for _ in range(CALLS):
                await _timed(_exchange(ws), latencies)


async def _exchange(ws: Any) -> None:
    await ws.send(STEP, text=True)
    await ws.recv(decode=False)


async def _timed(call: Awaitable[Any], latencies: list[float]) -> None:
    started = time.perf_counter()
    await call
    latencies.append(time.perf_counter() - started)


async def drive(worker: Worker, url: str, concurrency: int, seconds: float) -> tuple[list[float], float]:
    """Latencies of the tool calls, and how long it took."""
    latencies: list[float] = []
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker(url, started + seconds, latencies))
    return latencies, time.perf_counter() - started


def measure(worker: Worker, url: str, process: Measured | None, concurrency: int, seconds: float) -> dict[str, float]:
    cpu = process.cpu_s() if process else 0.0
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        latencies, took = runner.run(drive(worker, url, concurrency, seconds))
    spent = (process.cpu_s() if process else 0.0) - cpu
    return {
        "calls/s": len(latencies) / took,
        "p50 ms": quantile(latencies, 0.5) * 1e3,
        "p99 ms": quantile(latencies, 0.99) * 1e3,
        "CPU us/call": spent / max(1, len(latencies)) * 1e6,
    }


def idle_memory(resources: Measured, sessions: int) -> float:
    """Kilobytes of resident memory per open session that does nothing."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_idle_memory(resources, sessions))


async def _idle_memory(resources: Measured, sessions: int) -> float:
    before = resources.rss_bytes()
    client = await RawClient.connected(resources.url)
    for _ in range(sessions):
        status, _, body = await client.post("/seed_session", ROW)
        if status != 200:
            raise RuntimeError(f"seed answered {status}: {body!r}")
    after = resources.rss_bytes()
    client.close()
    return (after - before) / sessions / 1024


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """One row per way and concurrency, and the checks on them."""
    rows: list[dict[str, Any]] = []
    with running("gym-env-bundle", "serve", "--port", "0") as bundle:
        env, ws = f"echo={bundle.url}/echo", f"{bundle.url.replace('http', 'ws')}/echo/ws"
        with (
            running("gym-resources", "serve", "--port", "0", "--env", env) as resources,
            running(sys.executable, "-m", "benchmarks.sessions.bridge", str(_free_port()), ws) as bridge,
        ):
            ways = (
                ("direct", direct, ws, None),
                ("bridge", bridged, bridge.url, bridge),
                ("rollgym", ours, resources.url, resources),
            )
            for _, worker, url, process in ways:
                measure(worker, url, process, 8, 0.5)
            for concurrency in options.concurrency:
                for _ in range(options.rounds):
                    for name, worker, url, process in ways:
                        found = measure(worker, url, process, concurrency, options.seconds)
                        rows.append({"concurrent": concurrency, "way": name, **found})
            with running("gym-resources", "serve", "--port", "0", "--env", env) as quiet:
                kilobytes = idle_memory(quiet, options.idle_sessions)
    rows = best_of_rounds(rows)
    rows.append({"concurrent": options.idle_sessions, "way": "idle sessions", "KB/session": kilobytes})
    columns = ("concurrent", "way", "calls/s", "p50 ms", "p99 ms", "CPU us/call", "KB/session")
    return [{column: row.get(column) for column in columns} for row in rows], checks(rows)


def best_of_rounds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The round with the most calls per second, for each way and concurrency: what disturbs only ever slows."""
    best: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        key = row["concurrent"], row["way"]
        if key not in best or row["calls/s"] > best[key]["calls/s"]:
            best[key] = row
    return list(best.values())


def checks(rows: list[dict[str, Any]]) -> dict[str, bool]:
    found = {(row["concurrent"], row["way"]): row for row in rows}
    said: dict[str, bool] = {}
    if (256, "bridge") in found:
        ratio = found[256, "rollgym"]["calls/s"] / found[256, "bridge"]["calls/s"]
        said[f"256 concurrent: {ratio:.2f} of the bridge's calls/s (0.7 or more)"] = ratio >= 0.7
    if (1, "bridge") in found:
        added = {way: found[1, way]["p50 ms"] - found[1, "direct"]["p50 ms"] for way in ("bridge", "rollgym")}
        ratio = added["rollgym"] / added["bridge"]
        said[f"1 concurrent: adds {added['rollgym']:.2f} ms, {ratio:.2f} of the bridge's (2 or less)"] = ratio <= 2
    idle = next(row for row in rows if row["way"] == "idle sessions")
    said[f"{idle['KB/session']:.0f} KB per idle session (60 or less)"] = idle["KB/session"] <= 60
    return said


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
