"""A file that only grows, written to disk as it grows and let go from the kernel's page cache.

The kernel would keep gigabytes of results, which nobody reads before the run's end: pages that count as a container's
memory, that others had in the cache, that a virtual machine gets dearly from its host, that one long fsync writes out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

STEP_BYTES = 16 * 1024 * 1024
"""So much is written between two pieces of advice."""
_STEPS_AT_ONCE = 2
"""So many steps more than the last one a piece of advice covers: a long backlog is not written out at once."""
_RESTS = 3
"""After a piece of advice there is none for three times as long as that took."""

Advise = Callable[[int, int], None]


class GrowingFile:
    """Tells the kernel that nobody needs what was written so far: it begins to write out what is not on disk, and drops
    the rest.

    So a page is gone with the second or a later piece of advice. Advice takes long where the disk is slower than the
    writer, who waits for it: a quarter of the time at the most. The rest goes to disk when the kernel likes.
    """

    def __init__(
        self, size: int, advise: Advise, step_bytes: int = STEP_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`advise(offset, length)` takes bytes; `size` is what the file has already, and that stays where it is."""
        self._size, self._advise, self._step_bytes, self._clock = size, advise, step_bytes, clock
        self._begin = self._advised = -(-size // step_bytes) * step_bytes
        self._not_before = 0.0

    def grew(self, count: int) -> None:
        """`count` more bytes were written at its end."""
        self._size += count

    def let_go(self) -> None:
        """Give advice, where enough was written since the last. Takes time: nobody should wait for it."""
        end = self._size - self._size % self._step_bytes
        if end > self._advised and (now := self._clock()) >= self._not_before:
            self._advised = min(end, self._advised + _STEPS_AT_ONCE * self._step_bytes)
            self._advise(self._begin, self._advised - self._begin)
            done = self._clock()
            self._not_before = done + _RESTS * (done - now)


def growing_file(descriptor: int) -> GrowingFile:
    """Of an open file. Where there is no such advice, or the file takes none, nothing is done."""
    advice = getattr(os, "POSIX_FADV_DONTNEED", None)

    def advise(offset: int, length: int) -> None:
        nonlocal advice
        if advice is None:
            return
        try:
            os.posix_fadvise(descriptor, offset, length, advice)
        except OSError:
            advice = None

    return GrowingFile(os.fstat(descriptor).st_size, advise)
