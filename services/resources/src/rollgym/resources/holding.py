"""What a session holds of an environment server while its episode is there: a socket and a slot, always both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rollgym.resources.admission import Slot
from rollgym.resources.closing import Closers
from rollgym.resources.metrics import ResourcesMetrics
from rollgym.resources.openenv_client import EpisodeSocket
from rollgym.resources.opening import OpenEpisode


class Holding:
    """Empty at first; `take` fills it, `drop` and `close` empty it, and may be called whether it is empty or not."""

    __slots__ = ("_closers", "_metrics", "_slot", "socket")

    def __init__(self, closers: Closers, metrics: ResourcesMetrics) -> None:
        self._closers, self._metrics = closers, metrics
        self._slot: Slot | None = None
        self.socket: EpisodeSocket | None = None

    def take(self, opened: OpenEpisode, on_lost: Callable[[], None]) -> None:
        """Hold this episode; `on_lost` is called once where its connection ends and we did not end it."""
        self.socket, self._slot = opened.socket, opened.slot
        self._metrics.episode_held()
        opened.socket.on_lost(on_lost)

    def drop(self) -> None:
        """Give it up now, without a word to the server."""
        socket, slot = self._let_go()
        if socket is not None:
            socket.on_lost(None)
            socket.drop()
        if slot is not None:
            slot.release()

    def close(self) -> asyncio.Task[None] | None:
        """Give it up politely: the task ends when the server let go, or was given up on. None where it was empty."""
        socket, slot = self._let_go()
        return None if socket is None or slot is None else self._closers.close(socket, slot)

    def _let_go(self) -> tuple[EpisodeSocket | None, Slot | None]:
        held = self.socket, self._slot
        if self.socket is not None:
            self._metrics.episode_let_go()
        self.socket = self._slot = None
        return held
