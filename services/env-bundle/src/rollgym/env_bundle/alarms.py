"""Things that happen when a client stays quiet for some time: each a delay and what to do then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass
class _Alarm:
    delay_s: float
    action: Callable[[], Awaitable[None]]
    due: float


class Alarms:
    """The alarms of one session, by name. Each sounds once, and only while the session waits."""

    def __init__(self) -> None:
        self._alarms: dict[str, _Alarm] = {}

    def set(self, name: str, delay_s: float, action: Callable[[], Awaitable[None]]) -> None:
        """Sound once after `delay_s` seconds of quiet."""
        self._alarms[name] = _Alarm(delay_s, action, _now() + delay_s)

    def clear(self, name: str) -> None:
        """Forget an alarm, set or not."""
        self._alarms.pop(name, None)

    def restart(self, name: str) -> None:
        """Begin an alarm's wait anew: something happened."""
        if alarm := self._alarms.get(name):
            alarm.due = _now() + alarm.delay_s

    async def sound_if_due(self, name: str) -> None:
        """Sound an alarm whose time came while the session was at work."""
        alarm = self._alarms.get(name)
        if alarm is not None and alarm.due <= _now():
            await self._sound(name)

    async def sounding_during(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Await `wait()`, sounding what falls due meanwhile. `wait` may be cancelled and called again.

        What an action raises ends the wait.
        """
        while self._alarms:
            name, alarm = min(self._alarms.items(), key=lambda item: item[1].due)
            try:
                async with asyncio.timeout_at(alarm.due) as waiting:
                    return await wait()
            except TimeoutError:
                if not waiting.expired():
                    raise
            await self._sound(name)
        return await wait()

    async def _sound(self, name: str) -> None:
        await self._alarms.pop(name).action()


def _now() -> float:
    return asyncio.get_running_loop().time()
