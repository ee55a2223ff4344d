"""Notices that a request's client went away, at no cost to requests that are answered soon."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive

from rollgym.common.disconnect import ClientDisconnected

WATCH_AFTER_S = 0.1


class ClientWatch:
    """A context manager: its block is cancelled when the client disconnects, and ClientDisconnected raised instead.

    Read the request's body first. Unlike `run_until_disconnect` it runs the block in the caller's own task, and starts
    a task of its own only where the block takes longer than `WATCH_AFTER_S`: most calls never pay for one.
    """

    __slots__ = ("_gone", "_receive", "_task", "_timer", "_watching")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None
        self._gone = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._watch)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watching is None:
            return
        if self._gone:
            await self._disconnected(kind)
        else:
            self._watching.cancel()
            await asyncio.wait({self._watching})

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._until_gone(), name="client-watch")

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()

    async def _disconnected(self, kind: type[BaseException] | None) -> None:
        if kind is None:  # the block ended in the same instant: the cancellation is still to be delivered
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self._task.uncancel()
            return
        if self._task.uncancel() == 0 and issubclass(kind, asyncio.CancelledError):
            raise ClientDisconnected
