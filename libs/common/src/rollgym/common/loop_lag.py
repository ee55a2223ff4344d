"""How late the event loop is: a task that sleeps a little and measures how much longer it took."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

INTERVAL_S = 0.01


async def _measure(observe: Callable[[float], None], interval_s: float) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(interval_s)
        observe(max(0.0, time.perf_counter() - before - interval_s))


@contextlib.asynccontextmanager
async def watching_loop_lag(observe: Callable[[float], None], interval_s: float = INTERVAL_S) -> AsyncIterator[None]:
    """While the block runs, call `observe(seconds)` with the loop's lag about `1 / interval_s` times a second."""
    task = asyncio.create_task(_measure(observe, interval_s), name="loop-lag")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
