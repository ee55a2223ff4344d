"""Requests that servers read slowly, in part or not at all, from memory and from a file."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from integration.driver.bulk_http.posting import FiledRow, Posting, Row
from integration.driver.bulk_http.scripted_server import Peer, scripted, turns
from rollgym.driver.bulk_http.answer import ExchangeError
from rollgym.driver.bulk_http.connection import sends_files
from rollgym.driver.file_range import FileRange

OK = b"HTTP/1.1 200 OK\r\n"
SMALL = OK + b"Content-Length: 2\r\n\r\n{}"
TOO_MUCH = b"[" + b"x" * (24 << 20) + b"]"
"""More than twice what the kernels' buffers take: the sender's, usually up to 4 MB, and the scripted server's."""
ROOMY = b"x" * 30_000


@pytest.fixture(params=["from memory", "from a file"])
def row_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[bytes], Row]]:
    with ExitStack() as files:
        if request.param == "from memory":
            yield Row
        else:
            yield lambda content: files.enter_context(closing(FiledRow(content, tmp_path)))


def refusing(body: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 413 Too Large", b"Content-Length: %d" % len(body), *headers, b"", body])


async def test_a_request_is_sent_once_the_kernel_has_all_of_it(bulk: Posting, row_of: Callable[[bytes], Row]) -> None:
    half = len(TOO_MUCH) // 2
    row = row_of(TOO_MUCH)
    received = []

    async def script(peer: Peer) -> None:
        await peer.head()
        await turns(50)
        assert row.sent_after is None
        first = await peer.body(half)
        await turns(50)
        assert row.sent_after is None
        received.append(first + await peer.body(len(TOO_MUCH) - half))
        await turns()
        assert row.sent_after == 1
        await peer.send(SMALL)
        await peer.request()
        await peer.send(SMALL)

    async with scripted(script) as server:
        for each in (row, Row()):
            assert (await bulk.post(server.url, each)).status == 200
        assert received == [TOO_MUCH]
        assert len(server.peers) == 1


async def test_a_small_request_is_sent_at_once(bulk: Posting, row_of: Callable[[bytes], Row]) -> None:
    """From a file it is not even read."""
    async with scripted() as server:
        row = row_of(ROOMY)
        posted = bulk.begin(server.url, row)
        peer = await server.accept()
        assert b"Content-Length: 30000\r\n" in await peer.head()
        assert await peer.body(len(ROOMY)) == ROOMY
        assert row.sent_after == row.reads == (0 if isinstance(row, FiledRow) else 1)
        await peer.send(SMALL)
        await posted


async def test_a_head_that_the_kernel_takes_in_part(bulk: Posting, row_of: Callable[[bytes], Row]) -> None:
    query, content = "x" * (8 << 20), b"[" + b"y" * (3 << 20) + b"]"
    received = []

    async def script(peer: Peer) -> None:
        begun = await peer.body(len(query))
        await turns(20)
        begun += await peer.body(len(content))
        ends = begun.index(b"\r\n\r\n") + 4
        received.append(begun[ends:] + await peer.body(ends + len(content) - len(begun)))
        received.append(begun[:ends])
        await peer.send(SMALL)
        received.append(await peer.request())
        await peer.send(SMALL)

    async with scripted(script) as server:
        assert (await bulk.post(f"{server.url}?{query}", row_of(content))).status == 200
        assert (await bulk.post(server.url, row_of(b"{}"))).status == 200
    assert received[0] == content
    assert received[1].startswith(b"POST /run?xxx")
    assert received[1].count(b"x") == len(query)
    assert received[2].endswith(b"Content-Length: 2\r\n\r\n{}")


async def test_why_a_connection_broke_is_said(bulk: Posting, row_of: Callable[[bytes], Row]) -> None:
    """It breaks when the client has just seen that nothing came on it."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(SMALL)
        await over.wait()

    over, row = asyncio.Event(), row_of(ROOMY)
    async with scripted(script) as server:
        await bulk.post(server.url)
        row.before_room = server.peers[0].reset
        with pytest.raises(ExchangeError, match="Connection reset by peer"):
            await bulk.post(server.url, row)
        over.set()


@pytest.mark.parametrize(
    ("system", "release", "sends"),
    [
        ("Linux", "6.5.0-18-generic", False),
        ("Linux", "6.5", False),
        ("Linux", "6.50.1", True),
        ("Linux", "5.15.0-6.5", True),
        ("Linux", "6.18.44", True),
        ("Darwin", "24.1.0", False),
    ],
)
def test_files_are_sent_on_linux_but_for_one_release(system: str, release: str, sends: bool) -> None:
    assert sends_files(system, release) is sends


async def test_what_the_kernel_cannot_send_from_is_read(bulk: Posting) -> None:
    reading, writing = os.pipe()

    class InPipe(Row):
        def in_file(self) -> FileRange:
            return FileRange(reading, 0, self.size)

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(SMALL)

    requests: list[bytes] = []
    try:
        async with scripted(script) as server:
            row = InPipe(ROOMY)
            assert (await bulk.post(server.url, row)).status == 200
    finally:
        os.close(reading)
        os.close(writing)
    assert (row.reads, row.sent_after) == (1, 1)
    assert [request.partition(b"\r\n\r\n")[2] for request in requests] == [ROOMY]


@pytest.mark.parametrize("pieces", [1, 2], ids=["in one piece", "head and body"])
@pytest.mark.parametrize("size", [10, 30_000, 300_000])
async def test_an_answer_before_the_request_was_read_is_one(
    bulk: Posting, row_of: Callable[[bytes], Row], size: int, pieces: int
) -> None:
    """The connection is not used again: the rest of the request would be taken for the next one."""
    head, body = refusing(b"x" * size)[:-size], b"x" * size
    row = row_of(TOO_MUCH)

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(*([head + body] if pieces == 1 else [head, body]))
        await peer.left()

    async with scripted(script) as server:
        answer = await bulk.post(server.url, row)
        assert (answer.status, answer.body) == (413, body)
        assert row.sent_after is None
        assert (await bulk.post(server.url)).status == 413
        assert len(server.peers) == 2


@pytest.mark.parametrize("ends", [Peer.close, Peer.reset], ids=["closed", "reset"])
@pytest.mark.parametrize("size", [10, 30_000])
async def test_an_answer_of_a_server_that_then_leaves_is_read(
    bulk: Posting, row_of: Callable[[bytes], Row], size: int, ends: Callable[[Peer], None]
) -> None:
    """With something unread on its side, its end breaks the connection while the client is still sending."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await turns(20)
        peer.send_now(refusing(b"x" * size, b"Connection: close"))
        ends(peer)

    async with scripted(script) as server:
        answer = await bulk.post(server.url, row_of(TOO_MUCH))
        assert (answer.status, answer.body) == (413, b"x" * size)


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Le", OK + b"Content-Length: 9\r\n\r\nabc"],
    ids=["nothing", "half a head", "half a body"],
)
@pytest.mark.parametrize("ends", ["closes", "resets", "ends its side"])
async def test_a_server_that_leaves_while_the_request_is_sent(
    bulk: Posting, row_of: Callable[[bytes], Row], said: bytes, ends: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await turns(20)
        peer.send_now(said)
        if ends == "closes":
            peer.close()
        elif ends == "resets":
            peer.reset()
        else:
            peer.end_side()
            await left.wait()

    left, row = asyncio.Event(), row_of(TOO_MUCH)
    async with scripted(script) as server:
        with pytest.raises(ExchangeError):
            await bulk.post(server.url, row)
        left.set()
    assert (row.reads, row.sent_after) == (1, None)


async def test_a_body_without_a_length_ends_although_the_request_was_not_read(bulk: Posting) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 400 Bad\r\n\r\n" + ROOMY)
        peer.end_side()
        await left.wait()

    left = asyncio.Event()
    async with scripted(script) as server:
        answer = await bulk.post(server.url, Row(TOO_MUCH))
        left.set()
    assert (answer.status, answer.body) == (400, ROOMY)


async def test_an_empty_request_is_one(bulk: Posting) -> None:
    async with scripted() as server:
        posted = bulk.begin(server.url, Row(b""))
        peer = await server.accept()
        assert b"Content-Length: 0\r\n" in await peer.head()
        await peer.send(SMALL)
        assert (await posted).status == 200
