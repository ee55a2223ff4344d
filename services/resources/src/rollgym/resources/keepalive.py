"""Pings every open session from one task, and ends those whose server answers no pong any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from websockets.exceptions import ConnectionClosed

from rollgym.common.logs import get_logger
from rollgym.resources.openenv_client import EpisodeSocket

log = get_logger(__name__)


class Keepalive:
    """Sends pings each `interval_s`; a socket without a pong for `timeout_s` is dropped.

    Where this process's own loop stalled, the pongs may lie unread: every socket then has one more interval.
    """

    def __init__(self, sockets: Callable[[], Iterable[EpisodeSocket]], *, interval_s: float, timeout_s: float) -> None:
        self._sockets, self._interval_s, self._timeout_s = sockets, interval_s, timeout_s
        self._pinging: dict[EpisodeSocket, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Ping until cancelled."""
        try:
            while True:
                await asyncio.sleep(self._interval_s)
                for socket in list(self._sockets()):
                    if socket not in self._pinging:
                        self._pinging[socket] = asyncio.create_task(self._ping(socket), name="ping")
        finally:
            tasks = list(self._pinging.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ping(self, socket: EpisodeSocket) -> None:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        try:
            async with asyncio.timeout(self._timeout_s):
                pong = await socket.pinged()
            done, _ = await asyncio.wait({pong}, timeout=sent + self._timeout_s - loop.time())
            if not done and loop.time() > sent + self._timeout_s + self._interval_s / 2:
                done, _ = await asyncio.wait({pong}, timeout=self._interval_s)
        except ConnectionClosed:
            return
        except TimeoutError:
            done = set()
        finally:
            self._pinging.pop(socket, None)
        if not done:
            log.warning("no pong; the session's socket is dropped", waited_s=round(loop.time() - sent, 1))
            socket.drop()
