"""A client under test, its bound of memory, and what it must not leave behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from integration.driver.bulk_http.scripted_server import PATIENCE_S, turns
from rollgym.driver.bulk_http.answer import Answer
from rollgym.driver.bulk_http.client import BulkClient
from rollgym.driver.file_range import FileRange
from rollgym.driver.payload_memory import PayloadMemory

ROW = b'{"reward": 1.0}'
LIMIT_BYTES = 32 << 20


class Row:
    """A request's body that remembers what became of it; its room is in a memory of its own, where none is given."""

    def __init__(self, content: bytes = ROW, sending: PayloadMemory | None = None) -> None:
        self._content = content
        self.memory = (sending or PayloadMemory()).reservation()
        self.size = len(content)
        self.reads = 0
        self.sent_after: int | None = None
        """How many times it had been read when the kernel had it; None as long as it has not."""
        self.before_room: Callable[[], None] = lambda: None
        """Called between the choice of a connection and the request's start."""

    def room_now(self) -> bool:
        self.before_room()
        return self.memory.take_now(self.size)

    async def room(self) -> None:
        await self.memory.take(self.size)

    def in_file(self) -> FileRange | None:
        return None

    def read(self) -> bytes:
        self.reads += 1
        return self._content

    def watch(self, moved: Callable[[], int]) -> None:
        self.memory.watch(moved)

    def sent(self) -> None:
        assert self.sent_after is None, "said to be sent twice"
        self.sent_after = self.reads
        self.memory.give_back()


class FiledRow(Row):
    """A body whose bytes stand in a file, between others."""

    def __init__(self, content: bytes, folder: Path) -> None:
        super().__init__(content)
        self.path = folder / f"{id(self)}.jsonl"
        self.path.write_bytes(b"before" + content + b"behind")
        self._file = self.path.open("rb")

    def in_file(self) -> FileRange | None:
        return FileRange(self._file.fileno(), len(b"before"), self.size)

    def close(self) -> None:
        self._file.close()


class Posting:
    """Posts over one client, each within `PATIENCE_S`, each with a reservation of its own."""

    def __init__(self, client: BulkClient, memory: PayloadMemory) -> None:
        self.client, self.memory = client, memory

    async def post(self, url: str, row: Row | None = None, limit_bytes: int = LIMIT_BYTES) -> Answer:
        async with asyncio.timeout(PATIENCE_S):
            body = row or Row()
            with self.memory.reservation() as room, body.memory:
                return await self.client.post(url, body, room, limit_bytes)

    def begin(self, url: str, row: Row | None = None, limit_bytes: int = LIMIT_BYTES) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.post(url, row, limit_bytes))


@asynccontextmanager
async def posting() -> AsyncIterator[Posting]:
    """Fails where a task, room in memory, or an error that nobody was told of is left at the end.

    Sockets left open fail the test as well: warnings are errors.
    """
    loop, errors = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    memory = PayloadMemory()
    async with BulkClient() as client:
        yield Posting(client, memory)
    await turns()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert memory.used_bytes == 0
    gc.collect()
    assert not errors
