"""Tells resources servers that this process is there, so that no session of it outlives it, however it ends.

To each server one request is held open. What ends a process ends its connections, so nothing has to be sent in time.
At one URL there may be several replicas, told apart by who answered a seed: each has a request of its own, with that
answer's cookies, which lead back to it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from rollgym.common.errors import EnvRefused, RollgymError
from rollgym.common.logs import get_logger
from rollgym.common.redaction import redact_text

_log = get_logger(__name__)

AGAIN_AFTER_S = 1.0
GIVEN_UP_AFTER_S = 60.0
"""A server that cannot be reached for so long is gone, or has ended our sessions; the next session asks it anew.

A refusal from where a request was held before is something on the way that does not find the server for now."""

Hold = Callable[[str, Mapping[str, str]], Awaitable[int]]
"""Sends the request that is held to a URL, with cookies; returns its answer's status, raises RollgymError."""

ANYBODY = ""
"""Whichever replica is asked: so is a server before it has answered its first seed."""
_NO_COOKIES: Mapping[str, str] = MappingProxyType({})


class Presence:
    """The requests held open. `at` begins one; `end` lets go of all."""

    def __init__(
        self, hold: Hold, *, again_after_s: float = AGAIN_AFTER_S, given_up_after_s: float = GIVEN_UP_AFTER_S
    ) -> None:
        self._hold = hold
        self._again_after_s, self._given_up_after_s = again_after_s, given_up_after_s
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._unheard: set[str] = set()

    def at(self, base_url: str, replica: str = ANYBODY, cookies: Mapping[str, str] = _NO_COOKIES) -> None:
        """Be there for a replica at `base_url`; where that is so already, nothing happens."""
        place = base_url, replica
        if place in self._tasks or base_url in self._unheard:
            return
        task = asyncio.create_task(self._held(base_url, dict(cookies)), name="presence")
        self._tasks[place] = task
        task.add_done_callback(lambda _: self._tasks.pop(place, None))

    async def _held(self, base_url: str, cookies: Mapping[str, str]) -> None:
        now = asyncio.get_running_loop().time
        reached_at = now()
        was_held = False
        while now() - reached_at < self._given_up_after_s:
            try:
                status = await self._hold(base_url, cookies)
            except EnvRefused as error:
                _log.debug("presence_refused", url=redact_text(base_url), cause=error.data.get("cause"))
            except RollgymError:
                reached_at, was_held = now(), True
            else:
                if not 400 <= status < 500:
                    reached_at, was_held = now(), True
                elif not was_held:
                    self._unheard.add(base_url)  # a server that is not ours, and knows no owners
                    return
            await asyncio.sleep(self._again_after_s)

    async def end(self) -> None:
        """Hold nothing any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
