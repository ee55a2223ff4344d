"""Clients that say that they are there: what they seeded does not outlive them.

An owner is there while it holds a request open. A connection ends with its process, however that ends, so nothing has
to be sent in time, and a client that is merely slow is not taken for one that is gone; nor is one that goes on using
its sessions while its held request is lost, or went to another replica: a call in flight is use for as long as it
takes. Sessions without an owner, and those of an owner that never held a request, are the idle timeout's business.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from rollgym.common.logs import get_logger

OWNER_HEADER = "x-rollgym-owner"
MAX_OWNER_CHARS = 100

log = get_logger(__name__)


class Owners:
    """Who is there. `gone` is called once `grace_s` after an owner's last held request ended and its last use.

    `unused_s`: for how long no call of an owner was in flight; 0 where one is.
    """

    def __init__(self, gone: Callable[[str], None], grace_s: float, unused_s: Callable[[str], float]) -> None:
        self._gone, self._grace_s, self._unused_s = gone, grace_s, unused_s
        self._holding: Counter[str] = Counter()
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        """Owners that are there, or left a moment ago."""
        return len(self._holding) + len(self._leaving)

    async def held(self, owner: str) -> None:
        """Be there until cancelled, or until `close`."""
        self._holding[owner] += 1
        if (leaving := self._leaving.pop(owner, None)) is not None:
            leaving.cancel()
        try:
            await self._closed.wait()
        finally:
            self._holding[owner] -= 1
            if not self._holding[owner]:
                del self._holding[owner]
                if not self._closed.is_set():
                    self._leave_in(self._grace_s, owner)

    def _leave_in(self, seconds: float, owner: str) -> None:
        later = asyncio.get_running_loop().call_later
        self._leaving[owner] = later(seconds, self._left, owner)

    def _left(self, owner: str) -> None:
        if (unused_s := self._unused_s(owner)) < self._grace_s:
            self._leave_in(self._grace_s - unused_s, owner)
            return
        del self._leaving[owner]
        log.info("an owner is gone", owner=owner[:8], waited_s=self._grace_s)
        self._gone(owner)

    def close(self) -> None:
        """Answer whoever holds a request; from here on nobody counts as gone."""
        self._closed.set()
        for leaving in self._leaving.values():
            leaving.cancel()
        self._leaving.clear()
