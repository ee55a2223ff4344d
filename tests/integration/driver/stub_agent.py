"""An agent server that misbehaves as a test wants, and is the head that knows it: NeMo Gym's kind, without `/v1`.

A test gives a function from an `Arrival` (which rollout, the how-manieth time) to an `Answer`. Everything that arrived
stays readable in `StubAgent`. It runs in a thread, so that a command in the test's own thread can be its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Key = tuple[int, int]
AGENT = "stub_agent"


@dataclass(frozen=True)
class Arrival:
    """A row that reached `/run`; `nth` counts from 1 for each rollout."""

    task: int
    rollout: int
    nth: int
    row: dict[str, Any]
    at: float

    @property
    def key(self) -> Key:
        return self.task, self.rollout


@dataclass(frozen=True)
class Answer:
    """What becomes of an arrival: an answer, late or not, or none."""

    reward: Any = 1.0
    reward_raw: str | None = None
    """The reward as it stands in the JSON text; `reward` is ignored."""
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 5})
    text: str = "done"
    extra: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    body: bytes | None = None
    """In place of a verify response."""
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    after: threading.Event | None = None
    """Answered once this is set."""
    hang: bool = False
    cut: bool = False
    """The connection is reset once the request was read."""
    trickle_s: float | None = None
    """One byte, then this long a pause, and so on."""


Behaviour = Callable[[Arrival], Answer]


def verify_response(row: Mapping[str, Any], answer: Answer) -> bytes:
    """The JSON of a judged rollout."""
    message = {
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "type": "message",
        "content": [{"type": "output_text", "annotations": [], "text": answer.text}],
    }
    response: dict[str, Any] = {
        "id": "r",
        "created_at": 0,
        "model": "stub",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if answer.usage is not None:
        response["usage"] = answer.usage
    result = {
        "responses_create_params": row["responses_create_params"],
        "response": response,
        "reward": answer.reward,
        **answer.extra,
    }
    if answer.reward_raw is None:
        return json.dumps(result, ensure_ascii=False).encode()
    del result["reward"]
    return (json.dumps(result)[:-1] + f', "reward": {answer.reward_raw}}}').encode()


@dataclass
class StubAgent:
    """The running stub and what it has seen."""

    behave: Behaviour
    url: str = ""
    arrivals: list[Arrival] = field(default_factory=list)
    counts: Counter[Key] = field(default_factory=Counter)
    in_flight: int = 0
    peak: int = 0
    running: Counter[Key] = field(default_factory=Counter)
    overlaps: int = 0
    """Arrivals of a rollout while an earlier attempt at it was still at work here."""
    left: list[Key] = field(default_factory=list)
    """Rollouts whose client went away before their answer."""
    aggregate: int | None = 404
    """Status of what `/aggregate_metrics` answers; None: it never answers."""
    reports: list[str] = field(default_factory=list)
    """Paths that were asked for beside `/run`."""

    @property
    def keys(self) -> set[Key]:
        return {arrival.key for arrival in self.arrivals}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/run", self._run)
        app.router.add_post("/aggregate_metrics", self._aggregate)
        app.router.add_get("/server_instances", self._instances)
        app.router.add_route("*", "/{path:.*}", self._elsewhere)
        return app

    async def _instances(self, request: web.Request) -> web.Response:
        self.reports.append(request.path)
        host, port = self.url.removeprefix("http://").split(":")
        entry = {"server_type": "responses_api_agents", "host": host, "port": int(port), "url": self.url}
        return web.json_response([{"name": AGENT, "pid": None, "status": "success", **entry}])

    async def _aggregate(self, request: web.Request) -> web.Response:
        self.reports.append(request.path)
        await request.read()
        if self.aggregate is not None:
            return web.json_response({}, status=self.aggregate)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def _elsewhere(self, request: web.Request) -> web.Response:
        self.reports.append(request.path)
        return web.json_response({"detail": "Not Found"}, status=404)

    async def _run(self, request: web.Request) -> web.StreamResponse:
        row = json.loads(await request.read())
        key = (row["_ng_task_index"], row["_ng_rollout_index"])
        self.counts[key] += 1
        arrival = Arrival(*key, self.counts[key], row, time.monotonic())
        self.arrivals.append(arrival)
        self.overlaps += self.running[key] > 0
        self.running[key] += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self._answer(request, row, self.behave(arrival))
        except asyncio.CancelledError:
            self.left.append(key)
            raise
        finally:
            self.in_flight -= 1
            self.running[key] -= 1

    async def _answer(self, request: web.Request, row: dict[str, Any], answer: Answer) -> web.StreamResponse:
        if answer.after is not None:
            await asyncio.to_thread(answer.after.wait, 60)
        await asyncio.sleep(answer.after_s)
        if answer.hang:
            await asyncio.Event().wait()
        if answer.cut:
            assert request.transport is not None
            request.transport.abort()
        body = verify_response(row, answer) if answer.body is None else answer.body
        if answer.trickle_s is not None:
            return await _trickled(request, body, answer.trickle_s)
        headers = {"Content-Type": "application/json", **answer.headers}
        return web.Response(status=answer.status, body=body, headers=headers)


async def _trickled(request: web.Request, body: bytes, pause_s: float) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(len(body))})
    await response.prepare(request)
    for start in range(len(body)):
        await response.write(body[start : start + 1])
        await asyncio.sleep(pause_s)
    return response


@contextlib.contextmanager
def stub_agent(behave: Behaviour = lambda _: Answer()) -> Iterator[StubAgent]:
    """A stub on a free port of loopback, in a thread of its own, gone at the end."""
    stub = StubAgent(behave)
    with serving_app(stub.app()) as url:
        stub.url = url
        yield stub


@contextlib.contextmanager
def serving_app(app: web.Application) -> Iterator[str]:
    """Serve `app` in a thread; yields its URL. Handlers are cancelled when their client leaves."""
    ready, finish = threading.Event(), threading.Event()
    url: list[str] = []

    async def serve() -> None:
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
            url.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
            ready.set()
            await asyncio.to_thread(finish.wait)
        finally:
            await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="stub-server")
    thread.start()
    try:
        assert ready.wait(10), "the stub did not start"
        yield url[0]
    finally:
        finish.set()
        thread.join(10)
