"""Things that happen when a client stays quiet for some time: each a delay and what to do then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

TIMER_SLACK_S = 0.002
"""A loop's timers may ring that much early."""


@dataclass
class _Alarm:
    delay_s: float
    action: Callable[[], Awaitable[None]]
    due: float


class Alarms:
    """The alarms of one session, by name. Each sounds once, and only while the session waits."""

    def __init__(self) -> None:
        self._alarms: dict[str, _Alarm] = {}
        self._waiting: asyncio.Timeout | None = None

    @property
    def listening(self) -> bool:
        """Whether the session waits at this moment."""
        return self._waiting is not None and not self._waiting.expired()

    def set(self, name: str, delay_s: float, action: Callable[[], Awaitable[None]]) -> None:
        """Sound once after `delay_s` seconds of quiet, from now on; also during a wait that has begun."""
        self._alarms[name] = _Alarm(delay_s, action, _now() + delay_s)
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(self._next_due())

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
        if alarm is not None and alarm.due <= _now() + TIMER_SLACK_S:
            del self._alarms[name]
            await alarm.action()

    async def sounding_during(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Await `wait()`, sounding what falls due meanwhile. `wait` may be cancelled and called again.

        What an action raises ends the wait.
        """
        while True:
            try:
                async with asyncio.timeout_at(self._next_due()) as self._waiting:
                    return await wait()
            except TimeoutError:
                if self._waiting is None or not self._waiting.expired():
                    raise
            finally:
                self._waiting = None
            for name in sorted(self._alarms, key=lambda each: self._alarms[each].due):
                await self.sound_if_due(name)

    def _next_due(self) -> float | None:
        return min((alarm.due for alarm in self._alarms.values()), default=None)


def _now() -> float:
    return asyncio.get_running_loop().time()
