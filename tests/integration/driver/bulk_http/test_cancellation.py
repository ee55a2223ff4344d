"""Cancelled anywhere, an exchange closes its socket, gives its room back, and leaves nothing. So does a finished one.

That no task, no room, no socket and no unheard error is left, the fixture checks after each test.
"""

import asyncio
import gc
import sys

import pytest

from integration.driver.bulk_http.posting import Posting, Row
from integration.driver.bulk_http.scripted_server import Peer, full_listener, scripted, turns
from integration.driver.bulk_http.test_room import fill
from integration.driver.bulk_http.test_sending import TOO_MUCH
from rollgym.driver.bulk_http.answer import Answer

OK = b"HTTP/1.1 200 OK\r\n"
LARGE = OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
ANSWERS = {
    "length": OK + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000,
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "until-the-end": OK + b"\r\n{}",
}


async def cancelled(posted: asyncio.Task[Answer]) -> None:
    assert not posted.done()
    posted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posted


async def test_while_connecting(bulk: Posting) -> None:
    with full_listener() as port:
        posted = bulk.begin(f"http://127.0.0.1:{port}/run")
        await turns(20)
        await cancelled(posted)


async def test_while_sending(bulk: Posting) -> None:
    async with scripted() as server:
        row = Row(TOO_MUCH)
        posted = bulk.begin(server.url, row)
        peer = await server.accept()
        await peer.head()
        await cancelled(posted)
        await peer.left()
        assert row.sent_after is None


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        OK + b"Content-Le",
        OK + b"Content-Length: 9\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
        OK + b"\r\nabc",
    ],
    ids=["nothing yet", "after 100", "in the head", "in the body", "in a chunk", "in a body without length"],
)
async def test_while_the_answer_is_awaited(bulk: Posting, begun: bytes) -> None:
    async with scripted() as server:
        posted = bulk.begin(server.url)
        peer = await server.accept()
        await peer.request()
        await peer.send(begun)
        assert bulk.memory.used_bytes == 0 or b"Length: 9" in begun or b"chunked" in begun or begun == OK + b"\r\nabc"
        await cancelled(posted)
        assert bulk.memory.used_bytes == 0
        await peer.left()


@pytest.mark.parametrize("given", [False, True], ids=["none yet", "given in the same instant"])
async def test_while_waiting_for_room(bulk: Posting, given: bool) -> None:
    held = fill(bulk)
    async with scripted() as server:
        exchanges, peers = [], []
        for _ in range(2):
            exchanges.append(bulk.begin(server.url))
            peers.append(await server.accept())
            await peers[-1].request()
            await peers[-1].send(LARGE[:10_000])
        posted, behind = exchanges
        await turns(20)
        if given:
            held.pop().give_back()
        await cancelled(posted)
        await peers[0].left()
        for each in held:
            each.give_back()
        await peers[1].send(LARGE[10_000:])
        assert (await behind).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in ANSWERS.items()])
async def test_after_any_number_of_turns_of_the_loop(bulk: Posting, raw: bytes, host: str) -> None:
    """Whatever an exchange is at: each turn is somebody's."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(raw[:30], raw[30:])
            if raw is ANSWERS["until-the-end"]:
                return peer.close()

    async with scripted(script) as server:
        url = server.url.replace("127.0.0.1", host)
        await bulk.post(url)  # from now on the host's addresses are known
        for count in range(60):
            posted = bulk.begin(url)
            await turns(count)
            posted.cancel()
            await asyncio.gather(posted, return_exceptions=True)
            assert bulk.memory.used_bytes == 0
        assert (await bulk.post(url)).status == 200


async def test_a_cancelled_connection_is_not_used_again(bulk: Posting) -> None:
    async with scripted() as server:
        posted = bulk.begin(server.url)
        first = await server.accept()
        await first.request()
        await cancelled(posted)
        again = bulk.begin(server.url)
        second = await server.accept()
        await second.request()
        await second.send(ANSWERS["chunks"])
        assert (await again).body == b"{}"


@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in ANSWERS.items()])
async def test_an_exchange_leaves_nothing_to_the_collector(bulk: Posting, raw: bytes) -> None:
    """Objects that refer to each other would stay until the collector comes, with the bodies that they hold."""
    if raw is ANSWERS["until-the-end"] and sys.version_info < (3, 12):
        pytest.skip("a closed transport of Python 3.11 refers to itself")

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(raw)
            if raw is ANSWERS["until-the-end"]:
                return peer.close()

    async with scripted(script) as server:
        for count in (2, 8):  # what is made once, by the first, is none of theirs
            gc.collect()
            gc.disable()
            for _ in range(count):
                await bulk.post(server.url)
            await turns()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                gc.collect()
                left = [type(found).__name__ for found in gc.garbage]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
        assert left == []
