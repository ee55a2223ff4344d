"""A stretch of network that can be cut: while it is, nothing passes in either direction, and nobody is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from waiting import eventually

CHUNK_BYTES = 64 * 1024


class Network:
    """Between whoever connects to `url` and the server at `host:port`.

    While it is cut, connections are taken and lead nowhere, and what is sent is held back as a sender's own unanswered
    retransmissions would be: it arrives when the network is mended, unless an end gave up. Ends of streams and resets
    are held back too.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._passable = asyncio.Event()
        self._passable.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def cut(self) -> None:
        self._passable.clear()

    def mend(self) -> None:
        self._passable.set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._bridged(reader, writer), name="network")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bridged(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passable.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carried(reader, far_writer))
                group.create_task(self._carried(far_reader, writer))
        finally:
            writer.transport.abort()
            far_writer.transport.abort()

    async def _carried(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._passable.wait()
                writer.write(data)
                await writer.drain()
        await self._passable.wait()
        writer.close()

    async def gone(self) -> None:
        """Whatever still passes or waits to pass ends."""
        for task in self._tasks:
            task.cancel()
        await eventually(lambda: not self._tasks)


@asynccontextmanager
async def network_to(port: int, host: str = "127.0.0.1") -> AsyncIterator[Network]:
    """A network in working order, in front of the server at `port`."""
    network = Network(host, port)
    server = await asyncio.start_server(network.connected, "127.0.0.1", 0)
    network.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield network
    finally:
        server.close()
        await network.gone()
