"""The driver's event loop: asyncio's own, over a selector that bounds how many sockets are handled in one turn.

A thousand agents that answer together make a thousand sockets readable at once. asyncio handles them all in one turn of
the loop, and every timer, progress report and other rollout waits for that turn: 200 to 500 ms here. With a bound, the
rest stay readable in the kernel, whose ready list goes round, so that none is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import select
import selectors
from collections.abc import Mapping
from selectors import EVENT_READ, EVENT_WRITE, SelectorKey
from typing import Any

SOCKETS_PER_TURN = 2
"""Two answers of 0.5 MB are read in the same turn that received them, while the processor's cache still holds them."""


class BoundedEpollSelector(selectors.BaseSelector):
    """Epoll with a bound on the events of one call.

    The bound has to be epoll's own: what it reports moves to the end of its list, so that the next call reports the
    following sockets. Cutting the list afterwards would starve those at its end.
    """

    def __init__(self, most: int = SOCKETS_PER_TURN) -> None:
        self._most = most
        self._epoll = select.epoll()
        self._keys: dict[int, SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else int(fileobj.fileno())
        if fd < 0:
            raise ValueError(f"Invalid file descriptor: {fd}")
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} (FD {fd}) is already registered")
        self._epoll.register(fd, _to_epoll(events))
        self._keys[fd] = SelectorKey(fileobj, fd, events, data)
        return self._keys[fd]

    def unregister(self, fileobj: Any) -> SelectorKey:
        key = self._keys.pop(self._fd(fileobj))
        with contextlib.suppress(OSError):  # closed already: the kernel has forgotten it by itself
            self._epoll.unregister(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        fd = self._fd(fileobj)
        key = self._keys[fd]
        if events != key.events:
            self._epoll.modify(fd, _to_epoll(events))
        self._keys[fd] = SelectorKey(key.fileobj, fd, events, data)
        return self._keys[fd]

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Ready keys, `most` at the most. `timeout` in seconds; None waits, 0 and below do not."""
        # Epoll counts in milliseconds: rounded up, so that a timer is never woken early.
        wait_s = -1.0 if timeout is None else max(0.0, math.ceil(timeout * 1e3) * 1e-3)
        try:
            found = self._epoll.poll(wait_s, self._most)
        except InterruptedError:
            return []
        ready = []
        for fd, event in found:
            key = self._keys.get(fd)
            if key is not None:
                reads = EVENT_READ if event & ~select.EPOLLOUT else 0
                writes = EVENT_WRITE if event & ~select.EPOLLIN else 0
                ready.append((key, (reads | writes) & key.events))
        return ready

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()

    def get_key(self, fileobj: Any) -> SelectorKey:
        return self._keys[self._fd(fileobj)]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._keys

    def _fd(self, fileobj: Any) -> int:
        """The descriptor of a registered object; a closed one is found by who it is."""
        if isinstance(fileobj, int):
            fd = fileobj
        else:
            fd = int(fileobj.fileno())
            if fd < 0:
                fd = next((key.fd for key in self._keys.values() if key.fileobj is fileobj), -1)
        if fd not in self._keys:
            raise KeyError(f"{fileobj!r} is not registered")
        return fd


def _to_epoll(events: int) -> int:
    return (select.EPOLLIN if events & EVENT_READ else 0) | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def driver_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop for the driver's process: what `asyncio.Runner` takes as its `loop_factory`."""
    if not hasattr(select, "epoll"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(BoundedEpollSelector())
