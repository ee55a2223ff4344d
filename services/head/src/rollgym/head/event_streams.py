"""Who watches which run: hands every report to each open event stream, and ends all streams when the head stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from rollgym.common import jsonx
from rollgym.head.errors import HeadFull
from rollgym.head.run_records import RunRecord

MAX_STREAMS = 512
QUEUE_LENGTH = 64
KEEPALIVE_S = 10.0
RETRY_MS = 2000

_Queue = asyncio.Queue[RunRecord | None]


class EventStreams:
    """The open streams by run. A reader that is too slow misses older reports, never holds anything up."""

    def __init__(self) -> None:
        self._queues: dict[str, set[_Queue]] = {}
        self._closed = False

    @property
    def open(self) -> int:
        return sum(map(len, self._queues.values()))

    def publish(self, record: RunRecord) -> None:
        for queue in self._queues.get(record.run_id, ()):
            _put(queue, record)

    def close(self) -> None:
        """End every stream, now and to come. Idempotent; called when the head begins to stop."""
        self._closed = True
        for queues in self._queues.values():
            for queue in queues:
                _put(queue, None)

    def check_room(self) -> None:
        """Raises HeadFull where no further stream may be opened."""
        if self.open >= MAX_STREAMS:
            raise HeadFull(f"{MAX_STREAMS} event streams are open already", max_streams=MAX_STREAMS, retry_after_s=5)

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[_Queue]:
        """While the block runs, the queue gets every report of the run; None says that the head stops."""
        self.check_room()
        queue: _Queue = asyncio.Queue(QUEUE_LENGTH)
        if self._closed:
            queue.put_nowait(None)
        self._queues.setdefault(run_id, set()).add(queue)
        try:
            yield queue
        finally:
            self._queues[run_id].discard(queue)
            if not self._queues[run_id]:
                del self._queues[run_id]


def _put(queue: _Queue, item: RunRecord | None) -> None:
    while queue.full():
        queue.get_nowait()
    queue.put_nowait(item)


async def run_events(first: RunRecord, queue: _Queue, now: Callable[[], float]) -> AsyncIterator[bytes]:
    """The run as server-sent events: `update` at once and for each report, or when it falls silent; `end` closes it."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    record, shown = first, first.state(now())
    yield _event("update", record, now())
    while not shown.ended:
        if (state := record.state(now())) is not shown:
            shown = state
            yield _event("update", record, now())
            continue
        news: RunRecord | None
        try:
            async with asyncio.timeout(_patience_s(record, now())):
                news = await queue.get()
        except TimeoutError:
            yield b": still here\n\n"
            continue
        if news is None:
            return
        record, shown = news, news.state(now())
        yield _event("update", record, now())
    yield _event("end", record, now())


def _patience_s(record: RunRecord, now: float) -> float:
    """Until the next sign of life, or the moment at which a silent run turns lost."""
    until_lost_s = record.updated_at + record.report.ttl_s - now
    return min(KEEPALIVE_S, until_lost_s + 0.05) if until_lost_s > 0 else KEEPALIVE_S


def _event(kind: str, record: RunRecord, now: float) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), record.revision, jsonx.dumps(record.to_wire(now)))
