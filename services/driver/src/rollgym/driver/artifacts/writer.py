"""The one thread that writes a run's files, so that a slow disk never stalls the event loop.

Writes happen in the order in which they were asked for. A caller that awaits its write knows that the line is in the
file; a process killed afterwards leaves it there.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from rollgym.common.errors import ArtifactError
from rollgym.driver.artifacts.lines import Line, LineAppender, Piece
from rollgym.driver.artifacts.paths import ArtifactPaths

_MOST_AT_ONCE = 64
_TOLD_PER_TURN = 3
_TOLD_OF_MANY = 8
"""In a turn of the loop three writes are told of, and an eighth of those that wait: each starts another rollout."""


@dataclass(slots=True)
class _Write:
    lines: list[tuple[LineAppender, Line]]
    done: asyncio.Future[None] | None = None
    then: Callable[[], None] | None = None


class ArtifactWriter:
    """Appends lines to results, failures and journal. Open it with `writing_artifacts`."""

    def __init__(self, paths: ArtifactPaths) -> None:
        self._results = LineAppender(paths.results)
        self._failures = LineAppender(paths.failures)
        self._journal = LineAppender(paths.journal)
        self._gathered: list[_Write] = []
        self._ended: deque[tuple[_Write, ArtifactError | None]] = deque()
        self._telling = False
        self._queue: queue.SimpleQueue[list[_Write] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="artifact-writer", daemon=True)
        self.failed: ArtifactError | None = None
        self._thread.start()

    async def result(self, line: Line, journal: bytes, then: Callable[[], None]) -> None:
        """A row and its journal line. Calls `then` on the loop as soon as both are in their files, then returns.

        Whoever is cancelled while waiting: the line was handed over, is written, and `then` is called. Raises
        ArtifactError where it cannot be written; `then` is not called.
        """
        await self._written(_Write([(self._results, line), (self._journal, [journal])], then=then))

    async def failure(self, line: bytes, journal: bytes, then: Callable[[], None]) -> None:
        """A failed attempt and its journal line; as `result`."""
        await self._written(_Write([(self._failures, [line]), (self._journal, [journal])], then=then))

    async def flushed(self) -> None:
        """Returns when everything asked for so far is in its file and its `then` was called, or has failed."""
        if self.failed is None:
            done: asyncio.Future[None] = self._loop.create_future()
            self._hand_over_soon(_Write([], done))
            with contextlib.suppress(ArtifactError):
                await done

    def note(self, journal: bytes) -> None:
        """A journal line that nobody waits for. Raises ArtifactError where an earlier write failed."""
        self._check()
        self._hand_over_soon(_Write([(self._journal, [journal])]))

    async def _written(self, write: _Write) -> None:
        self._check()
        write.done = self._loop.create_future()
        self._hand_over_soon(write)
        await write.done

    def _hand_over_soon(self, write: _Write) -> None:
        """Once a turn of the loop, not once a write: at each hand-over two threads compete for the interpreter."""
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(write)

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed

    async def close(self) -> None:
        """Write what was asked for, then close the files."""
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        while self._ended:
            _resolve(*self._ended.popleft())
        for appender in (self._results, self._failures, self._journal):
            if self.failed is None:
                await asyncio.to_thread(appender.sync)
            appender.close()

    def _run(self) -> None:
        open_ended = True
        while open_ended:
            batches = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(batches) < _MOST_AT_ONCE:
                    batches.append(self._queue.get_nowait())
            open_ended = None not in batches
            writes = [write for batch in batches if batch is not None for write in batch]
            self.failed = self.failed or self._write(writes)
            error = self.failed
            self._ended.extend((write, error) for write in writes if write.done is not None)
            if self._ended and not self._telling:
                self._telling = True
                self._loop.call_soon_threadsafe(self._tell)
            self._results.let_go()  # when nobody waits for it any more

    def _tell(self) -> None:
        """On the loop: whoever waits for a write learns how it ended. A few in a turn, so that others have theirs."""
        self._telling = False
        waiting = len(self._ended)
        for _ in range(min(waiting, _TOLD_PER_TURN + waiting // _TOLD_OF_MANY)):
            _resolve(*self._ended.popleft())
        if self._ended and not self._telling:
            self._telling = True
            self._loop.call_soon(self._tell)

    def _write(self, writes: list[_Write]) -> ArtifactError | None:
        """Append the lines file by file: a row is in its file before the journal says so."""
        pieces: dict[LineAppender, list[Piece]]
        pieces = {appender: [] for appender in (self._results, self._failures, self._journal)}
        for write in writes:
            for appender, line in write.lines:
                pieces[appender] += (*line, b"\n")
        try:
            for appender, lines in pieces.items():
                if lines:
                    appender.append_block(lines)
        except ArtifactError as error:
            return error
        return None


def _resolve(write: _Write, error: ArtifactError | None) -> None:
    problem: Exception | None = error
    if write.then is not None and error is None:
        try:
            write.then()
        except Exception as bug:  # whoever waits must hear of it, or would wait for ever
            problem = bug
    if write.done is None or write.done.done():
        return
    if problem is None:
        write.done.set_result(None)
    else:
        write.done.set_exception(problem)


@contextlib.asynccontextmanager
async def writing_artifacts(paths: ArtifactPaths) -> AsyncIterator[ArtifactWriter]:
    """The files of a run, open for appending; closed, and synced to disk, at the end however that comes."""
    writer = ArtifactWriter(paths)
    try:
        yield writer
    finally:
        await asyncio.shield(writer.close())
