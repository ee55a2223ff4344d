"""A server that does to a connection exactly what a test tells it to: raw bytes, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

PATIENCE_S = 20.0
WINDOW_BYTES = 64 * 1024
"""So much is received before a script reads it. Without a bound of ours, it may be any number of megabytes."""
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


async def turns(count: int = 3) -> None:
    """Let the event loop go round: what is ready is handled, and nothing is waited for."""
    for _ in range(count):
        await asyncio.sleep(0)


class Peer:
    """The server's side of one connection."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self._loop = asyncio.get_running_loop()

    async def head(self) -> bytes:
        """A request's head, and nothing behind it."""
        async with asyncio.timeout(PATIENCE_S):
            read = b""
            while not read.endswith(b"\r\n\r\n"):
                byte = await self._loop.sock_recv(self.socket, 1)
                if not byte:
                    raise EOFError(f"no further request, after {read!r}")
                read += byte
            return read

    async def body(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            read = bytearray()
            while len(read) < size and (part := await self._loop.sock_recv(self.socket, size - len(read))):
                read += part
            return bytes(read)

    async def request(self) -> bytes:
        """A whole request."""
        head = await self.head()
        length = _LENGTH.search(head)
        return head + await self.body(int(length[1]) if length else 0)

    async def send(self, *pieces: bytes) -> None:
        """Each piece arrives by itself: the client's loop has gone round before the next one is sent."""
        for piece in pieces:
            async with asyncio.timeout(PATIENCE_S):
                await self._loop.sock_sendall(self.socket, piece)
            await turns()

    def send_now(self, content: bytes) -> None:
        """Into the client's kernel before its event loop has seen anything."""
        assert self.socket.send(content) == len(content)

    def close(self) -> None:
        self.socket.close()

    def end_side(self) -> None:
        """Send no more, and stay."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """What a process that is killed, with something unread, does to its connections."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    async def left(self) -> None:
        """Returns when the client has closed the connection; whatever it still sends is read and dropped."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                while await self._loop.sock_recv(self.socket, 1 << 20):
                    pass


Script = Callable[[Peer], Awaitable[None]]


class ScriptedServer:
    """Where it listens, and who has connected so far."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.peers: list[Peer] = []

    @property
    def port(self) -> int:
        port = self.listening.getsockname()[1]
        assert isinstance(port, int)
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/run"

    async def accept(self) -> Peer:
        async with asyncio.timeout(PATIENCE_S):
            connected, _ = await asyncio.get_running_loop().sock_accept(self.listening)
        self.peers.append(Peer(connected))
        return self.peers[-1]


def listening_socket(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
        listening.bind((host, port))
        listening.listen()
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


@asynccontextmanager
async def scripted(script: Script | None = None, host: str = "127.0.0.1") -> AsyncIterator[ScriptedServer]:
    """A server that runs `script` for each connection, all at once; without one, the test accepts them itself.

    A script that fails fails the test. One that is not at its end when the block is left is cancelled.
    """
    server = ScriptedServer(listening_socket(host))

    async def serve() -> None:
        assert script is not None
        async with asyncio.TaskGroup() as group:
            while True:
                connected, _ = await asyncio.get_running_loop().sock_accept(server.listening)
                server.peers.append(Peer(connected))
                group.create_task(_run(script, server.peers[-1]))

    serving = None if script is None else asyncio.create_task(serve())
    try:
        yield server
    finally:
        if serving is not None:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
        for peer in server.peers:
            peer.close()
        server.listening.close()


async def _run(script: Script, peer: Peer) -> None:
    with contextlib.suppress(EOFError, ConnectionError):
        await script(peer)


@contextmanager
def full_listener() -> Iterator[int]:
    """A port whose connections neither come about nor fail: nobody accepts them, and there is no more room to wait."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(listening_socket())
        listening.listen(0)
        port = listening.getsockname()[1]
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port
