"""Says goodbye to environment servers in the background: nobody waits for a slow handshake, and none is forgotten."""

from __future__ import annotations

import asyncio

from rollgym.resources.admission import Slot
from rollgym.resources.openenv_client import EpisodeSocket


class Closers:
    """Owns the closes under way. A slot is released when its server has let go, or was given up on."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def close(self, socket: EpisodeSocket, slot: Slot) -> asyncio.Task[None]:
        """Begin to close; the task ends within the timeout and never raises."""
        socket.on_lost(None)
        task = asyncio.create_task(self._closed(socket, slot), name="session-close")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _closed(self, socket: EpisodeSocket, slot: Slot) -> None:
        try:
            await socket.close(self._timeout_s)
        finally:
            slot.release()

    async def finished(self) -> None:
        """Wait until every close under way has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)
