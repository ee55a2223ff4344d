"""Ends the work of a request whose client went away: frameworks do not cancel a handler by themselves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

T = TypeVar("T")


class ClientDisconnected(Exception):
    """The client closed its connection before the answer; nobody is left to answer."""


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def run_until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, or cancel and await it when the client disconnects.

    Read the request's body first. Raises ClientDisconnected after the cancelled work has ended; where the caller is
    cancelled, so is the work.
    """
    doing = asyncio.ensure_future(work)
    watching = asyncio.create_task(_disconnected(request), name="disconnect-watch")
    try:
        await asyncio.wait({doing, watching}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        doing.cancel()
        await asyncio.wait({doing})
        if not doing.cancelled() and doing.exception() is None:
            return doing.result()  # it finished in the same instant: the answer is there, let it be tried
        raise ClientDisconnected
    finally:
        for task in (doing, watching):
            task.cancel()
        await asyncio.gather(doing, watching, return_exceptions=True)
