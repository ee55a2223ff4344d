"""Every test here ends with no task of ours left in its loop, and no exception that nobody took."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

OURS = ("open-", "session-close", "ping", "client-watch", "reclaim", "keepalive")


@pytest.fixture(autouse=True)
async def nothing_is_left_in_the_loop() -> AsyncIterator[None]:
    loop, unhandled = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    yield
    left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(OURS)]
    assert not left
    assert not unhandled
