"""A head with servers and runs for each test, and one browser that looks at all of them."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

import needs
from processes import RunningCommand, running

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Watched:
    """A page, with everything that went wrong in it and every address that it asked for."""

    page: Page
    base: str
    problems: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    async def open(self, path: str) -> None:
        await self.page.goto(self.base + path)

    def assert_clean(self) -> None:
        assert self.problems == []
        assert [url for url in self.asked if not url.startswith(self.base)] == []


@pytest_asyncio.fixture(loop_scope="module")
async def head() -> AsyncIterator[RunningCommand]:
    async with running("gym-head", "serve", "--port", "0", "--database", ":memory:") as head:
        yield head


@pytest_asyncio.fixture(loop_scope="module")
async def tell(head: RunningCommand) -> AsyncIterator[Any]:
    """`await tell(path, body)` puts a registration or a report."""
    async with httpx.AsyncClient(base_url=head.url, timeout=20, trust_env=False) as client:

        async def put(path: str, body: dict[str, Any]) -> None:
            answer = await client.put(path, json=body)
            assert answer.is_success, answer.text

        yield put


@pytest_asyncio.fixture(loop_scope="module")
async def busy_head(head: RunningCommand, tell: Any) -> RunningCommand:
    """A head with two servers and three runs."""
    await tell("/v1/servers/resources-1", registration(head.port))
    await tell("/v1/servers/env-bundle-1", registration(head.port, name="env-bundle", server_type="env_bundle"))
    await tell("/v1/runs/works", report(name="gridsim nightly", ttl_s=600))
    ended_at = time.time()
    await tell("/v1/runs/ended", report(name="wordle", state="finished", started_at=ended_at - 60, ended_at=ended_at))
    await tell("/v1/runs/fresh", {"name": "nothing measured", "state": "running", "started_at": 1, "ttl_s": 600})
    return head


def registration(port: int, **changes: Any) -> dict[str, Any]:
    body = {
        "name": "resources",
        "server_type": "resources_servers",
        "host": "127.0.0.1",
        "port": port,
        "url": f"http://127.0.0.1:{port}",
        "started_at": time.time() - 300,
        "ttl_s": 600,
        "metadata": {"envs": ["gridsim"], "sessions_open": 3, "max_sessions": 64},
    }
    return body | changes


def report(succeeded: int = 88, **changes: Any) -> dict[str, Any]:
    body = {
        "state": "running",
        "started_at": time.time() - 300,
        "owed": 200,
        "counts": {"succeeded": succeeded, "failed": 4, "masked": 2, "in_flight": 16, "pending": 90, "drained": 0},
        "reward_mean": 0.625,
        "rollouts_per_hour": 5400,
        "latency_s": {"p50": 1.5, "p90": 2.5, "p99": 9.25, "max": 10.0},
        "failures": {"env_busy": 3, "model_error": 1},
        "output": "results/out.jsonl",
    }
    return body | changes


@pytest.fixture(name="report")
def report_maker() -> Callable[..., dict[str, Any]]:
    """The body of a driver's report."""
    return report


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=needs.browser_path(), args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def watched(browser: Browser, head: RunningCommand) -> AsyncIterator[Any]:
    """`await watched(width=…, color_scheme=…, java_script_enabled=…)` opens a page of its own."""
    contexts = []

    async def new(width: int = 1280, height: int = 900, **options: Any) -> Watched:
        context = await browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        return Watched(await context.new_page(), head.url)

    yield new
    for context in contexts:
        await context.close()
