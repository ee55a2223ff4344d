"""The runs: taken in, kept on disk off the event loop, and handed to whoever watches. The one owner of the store."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from rollgym.common.logs import get_logger
from rollgym.head.errors import RunUnknown
from rollgym.head.event_streams import EventStreams
from rollgym.head.final_metrics import parse_exposition
from rollgym.head.run_records import RunRecord, RunReport, replaces, without_secrets
from rollgym.head.run_store import RunStore

T = TypeVar("T")

MAX_UNSAVED = 50

log = get_logger(__name__)


@dataclass(frozen=True)
class Receipt:
    """What became of a report: the run as it stands, whether it is a new one, and what could not be kept."""

    record: RunRecord
    created: bool
    warnings: list[str]


class RunHistory:
    """Open with `async with history.opened():`; every method but `recent` needs that.

    A disk that refuses a write costs durability, not the live view: the run is still shown and watched, the answer to
    the driver carries the warning, and `/ready` says so.
    """

    def __init__(
        self, path: str, *, keep_runs: int = 1000, keep_recent: int = 20, wall: Callable[[], float] = time.time
    ) -> None:
        self.streams = EventStreams()
        self._path, self._keep_runs, self._keep_recent, self._wall = path, keep_runs, min(keep_recent, keep_runs), wall
        self._recent: tuple[RunRecord, ...] = ()
        self._unsaved: dict[str, RunRecord] = {}
        self._problem: str | None = None
        self._order = asyncio.Lock()
        self._store: RunStore
        self._thread: ThreadPoolExecutor

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the store, on a thread of its own, for the length of the block. Raises ConfigurationError."""
        with ThreadPoolExecutor(1, thread_name_prefix="run-history") as self._thread:
            self._store = await self._off_the_loop(lambda: RunStore(self._path))
            try:
                self._recent = tuple(await self._off_the_loop(lambda: self._store.last_touched(self._keep_recent)))
                yield
            finally:
                self.streams.close()
                # Queued behind any write still running; the executor's exit then waits for both.
                self._thread.submit(self._store.close)

    @property
    def recent(self) -> tuple[RunRecord, ...]:
        """The runs reported last, newest first; bounded. Safe to read from another thread."""
        return self._recent

    def now(self) -> float:
        return self._wall()

    async def record(self, run_id: str, report: RunReport) -> Receipt:
        """Take a report in: kept when this returns (or a warning says that it is not), then shown to the watchers."""
        shown, warnings = without_secrets(report)
        async with self._order:
            known = await self._find(run_id)
            if known is not None and not replaces(report, known):
                return Receipt(known, False, ["a later report of this run is already here; this one was left out"])
            metrics, complaints = await self._off_the_loop(lambda: parse_exposition(report.metrics_text))
            record = RunRecord(
                run_id=run_id,
                report=shown,
                updated_at=self._wall(),
                revision=known.revision + 1 if known else 1,
                metrics=metrics,
            )
            warnings += complaints + await self._save(record)
            others = (other for other in self._recent if other.run_id != run_id)
            self._recent = (record, *others)[: self._keep_recent]
            self.streams.publish(record)
        return Receipt(record, known is None, warnings)

    async def get(self, run_id: str) -> RunRecord:
        """Raises RunUnknown."""
        record = await self._find(run_id)
        if record is None:
            raise RunUnknown(f"no run {run_id!r} is in the history", run_id=run_id)
        return record

    async def newest(self, limit: int) -> tuple[list[RunRecord], int]:
        """The runs that started last, and how many are kept in all."""
        stored, total = await self._off_the_loop(lambda: (self._store.newest(limit), self._store.count()))
        runs = {record.run_id: record for record in stored} | self._unsaved
        newest = sorted(runs.values(), key=lambda record: (-record.report.started_at, record.run_id))
        return newest[:limit], max(total, len(runs))

    async def health(self) -> str:
        """ "ok", or what is wrong with the store."""
        try:
            await self._off_the_loop(self._store.check)
        except sqlite3.Error as error:
            return str(error)
        return self._problem or "ok"

    async def _find(self, run_id: str) -> RunRecord | None:
        for record in (*self._unsaved.values(), *self._recent):
            if record.run_id == run_id:
                return record
        return await self._off_the_loop(lambda: self._store.get(run_id))

    async def _save(self, record: RunRecord) -> list[str]:
        try:
            await self._off_the_loop(lambda: self._store.put(record, keep=self._keep_runs))
        except sqlite3.Error as error:
            self._unsaved[record.run_id] = record
            while len(self._unsaved) > MAX_UNSAVED:
                del self._unsaved[next(iter(self._unsaved))]
            self._problem = f"the run history cannot be written: {error}"
            log.error("the run history cannot be written", database=self._path, problem=str(error))
            return [f"not stored: {error}"]
        self._unsaved.pop(record.run_id, None)
        self._problem = None
        if self._unsaved:
            # The disk takes writes again: what it refused before goes first, one a report.
            await self._save(next(iter(self._unsaved.values())))
        return []

    async def _off_the_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
