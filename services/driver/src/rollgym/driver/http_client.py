"""How the driver opens and reads HTTP: one kind of client session, bounded reads, and whose fault a failure is.

Not owned here: what an answer means. The resources client and the policies each map to their own errors.
"""

import errno
import io
import socket
from collections.abc import Mapping

import aiohttp

from rollgym.common.binding import keep_alive
from rollgym.common.errors import PayloadTooLarge, RollgymError

CONNECT_TIMEOUT_S = 30.0
UNACKNOWLEDGED_S = 60.0
"""A machine that has not taken a request for so long is gone."""
KEEPALIVE_S = 15.0
"""Idle connections are dropped well before a server's own keep-alive (75 s), so that none closes under a request."""

MAX_ANSWER_BYTES = 64 * 1024 * 1024
RECEIVE_WINDOW_BYTES = 512 * 1024
READ_BUFFER_BYTES = 16 * 1024
"""Of an answer whose body nobody reads yet, so much is taken off the socket before the rest is left in the kernel."""

_CHUNK_BYTES = 256 * 1024
_LARGE_BODY_BYTES = 1 << 20
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class LocalResourceError(RollgymError):
    """This process ran out of something of its own (file descriptors): no peer is to blame."""


def _wide_window_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that an answer of half a megabyte fits in: it arrives while others are handled, and takes few reads."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_WINDOW_BYTES)
    keep_alive(made, UNACKNOWLEDGED_S)
    return made


def open_client_session(*, headers: Mapping[str, str] | None = None) -> aiohttp.ClientSession:
    """A client session for many concurrent rollouts; the caller owns and closes it.

    No pool limit (concurrency is admission's business), no shared cookies (they are carried per rollout), no total
    time limit (callers bound their calls; a machine that is gone is noticed), and never a request sent twice: aiohttp
    resends idempotent methods only.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=10, socket_factory=_wide_window_socket
        ),
        read_bufsize=READ_BUFFER_BYTES,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        headers=headers,
    )


def body_of(content: bytes) -> bytes | io.BytesIO:
    """`content` as a request's body: in one piece where it is small, else written piece by piece, the loop between."""
    return content if len(content) <= _LARGE_BODY_BYTES else io.BytesIO(content)


async def read_bounded(response: aiohttp.ClientResponse, limit_bytes: int, what: str = "the answer") -> bytes:
    """The whole body of `response`. Raises PayloadTooLarge as soon as it passes `limit_bytes`."""
    announced = response.content_length
    if announced is not None and announced > limit_bytes:
        raise _too_large(what, announced, limit_bytes)
    chunks: list[bytes] = []
    received = 0
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        received += len(chunk)
        if received > limit_bytes:
            raise _too_large(what, received, limit_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


async def read_start(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """The first `limit_bytes` of the body, whatever follows: for an answer that is only shown to a person."""
    received = b""
    while len(received) < limit_bytes and (chunk := await response.content.read(limit_bytes - len(received))):
        received += chunk
    return received


def _too_large(what: str, received: int, limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"{what} is larger than {limit_bytes} bytes", received_bytes=received, limit_bytes=limit_bytes, terminal=True
    )


def out_of_descriptors(error: BaseException | None) -> bool:
    """Whether `error` is this process running out of file descriptors.

    aiohttp raises the same class for that as for a refused connection; only the errno tells them apart.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS:
            return True
        error = error.__cause__ or error.__context__
    return False


def descriptors_error(what: str) -> LocalResourceError:
    """The error for `what` that could not be called because this process has no file descriptor left."""
    return LocalResourceError(
        f"this process has no file descriptor left to call {what}: raise `ulimit -n` or lower the concurrency",
        out_of_descriptors=True,
    )


def excerpt(body: bytes, limit_bytes: int = 2048) -> str:
    """The start of an answer as text, for a message to a person."""
    text = body[:limit_bytes].decode("utf-8", errors="replace").strip()
    return f"{text} […]" if len(body) > limit_bytes else text
