"""Work that goes on beside a run: repeated, owned by a block, cancelled and awaited at its end."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable


@contextlib.asynccontextmanager
async def repeatedly(action: Callable[[], object], interval_s: float, name: str) -> AsyncIterator[None]:
    """While the block runs, call `action` every `interval_s`; what it returns is awaited where it can be."""

    async def loop() -> None:
        while True:
            await asyncio.sleep(interval_s)
            result = action()
            if inspect.isawaitable(result):
                await result

    task = asyncio.create_task(loop(), name=name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
