"""What a person sees while a run goes on and at its end; never what a run waits for.

All output goes through one thread: a reader that stopped reading, or a closed pipe, costs the run nothing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

FLUSH_TIMEOUT_S = 2.0
_MOST_QUEUED = 200


class Console:
    """Lines for stdout and stderr. Open it with `console_output`."""

    def __init__(self, out: TextIO | None, err: TextIO | None) -> None:
        """A stream that was closed before the start is None: what is said there, nobody hears."""
        self._out, self._err = out, err
        self._queue: queue.Queue[tuple[TextIO, str] | None] = queue.Queue(_MOST_QUEUED)
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """A line for the person who waits, on stderr."""
        self._put(self._err, text + "\n")

    def redraw(self, text: str) -> None:
        """The live line of a terminal, drawn over the last one."""
        self._put(self._err, f"\r\x1b[2K{text}")

    def result(self, text: str) -> None:
        """What was asked for, on stdout."""
        self._put(self._out, text + "\n")

    def _put(self, stream: TextIO | None, text: str) -> None:
        if stream is None:
            return
        # A full queue means that nobody reads: what is said now is worth less than going on.
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait((stream, text))

    @property
    def is_live(self) -> bool:
        """Whether stderr is a terminal that takes a redrawn line."""
        if self._err is None or not self._err.isatty():
            return False
        return os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            stream, text = item
            with contextlib.suppress(OSError, ValueError):  # a closed pipe: nobody is there to be told
                stream.write(text)
                stream.flush()

    def close(self) -> None:
        """Wait a little for what was said to be read; what is not read by then is left."""
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=FLUSH_TIMEOUT_S)
        self._thread.join(max(0.0, deadline - time.monotonic()))


@contextlib.contextmanager
def console_output() -> Iterator[Console]:
    console = Console(sys.stdout, sys.stderr)
    try:
        yield console
    finally:
        console.close()


@contextlib.contextmanager
def silent_console() -> Iterator[Console]:
    """A console that nobody hears: for library callers."""
    with open(os.devnull, "w") as nowhere:
        console = Console(nowhere, nowhere)
        try:
            yield console
        finally:
            console.close()
