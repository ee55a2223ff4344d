"""Requests and answers that wait for room in memory, and those that stop on their way and hold up nobody for long."""

import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import Callable

import pytest

from integration.driver.bulk_http.posting import Posting, Row
from integration.driver.bulk_http.scripted_server import PATIENCE_S, Peer, scripted, turns
from integration.driver.bulk_http.test_sending import OK, ROOMY, SMALL, TOO_MUCH, refusing
from rollgym.driver.bulk_http.answer import Answer, ExchangeError
from rollgym.driver.bulk_http.client import BulkClient
from rollgym.driver.payload_memory import LARGEST_SHARE, PayloadMemory, Reservation
from waiting import eventually


def fill(bulk: Posting) -> list[Reservation]:
    """Take all room there is."""
    held = [bulk.memory.reservation() for _ in range(LARGEST_SHARE)]
    for each in held:
        assert each.take_now(bulk.memory.limit_bytes)
    return held


LARGE = b"y" * (16 << 20)
ANSWERS = {
    "length": OK + b"Content-Length: %d\r\n\r\n%s" % (len(LARGE), LARGE),
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(LARGE), LARGE),
    "until-the-end": OK + b"Connection: close\r\n\r\n" + LARGE,
}


@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in ANSWERS.items()])
async def test_a_body_waits_in_the_kernel_until_there_is_room(bulk: Posting, raw: bytes) -> None:
    sent, held = 0, fill(bulk)

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        for at in range(0, len(raw), 65_536):
            await peer.send(raw[at : at + 65_536])
            sent = at
        peer.close()

    async with scripted(script) as server:
        large = bulk.begin(server.url)
        async with scripted() as other:  # a small answer needs no room, and comes meanwhile
            small = bulk.begin(other.url)
            peer = await other.accept()
            await peer.request()
            await peer.send(SMALL)
            assert (await small).body == b"{}"
        await turns(2_000)
        assert sent < 8 << 20
        assert not large.done()
        for each in held:
            each.give_back()
        assert (await large).body == LARGE


async def test_a_usual_answer_is_taken_in_whole_by_the_kernel(bulk: Posting) -> None:
    """A connection's first, too: else it comes in pieces, each with its own turn of the loop."""
    body, held, sent = b"x" * 500_000, fill(bulk), list[Peer]()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        sent.append(peer)
        await peer.left()

    def nothing_on_its_way() -> bool:
        return bool(sent) and not int.from_bytes(fcntl.ioctl(sent[0].socket, termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    async with scripted(script) as server:
        posted = bulk.begin(server.url)
        await eventually(nothing_on_its_way)
        assert not posted.done()
        for each in held:
            each.give_back()
        assert (await posted).body == body


async def test_those_who_wait_for_room_get_it_in_turn(bulk: Posting) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)
        await peer.left()

    held = fill(bulk)
    async with scripted(script) as server:
        waiting = [bulk.begin(server.url) for _ in range(20)]
        await turns(200)
        assert not any(task.done() for task in waiting)
        for each in held:
            each.give_back()
        for task in waiting:
            assert len((await task).body) == 3_000_000


@pytest.mark.parametrize("ends", [Peer.close, Peer.reset], ids=["closed", "reset"])
async def test_a_connection_that_breaks_while_its_body_waits_for_room(
    bulk: Posting, ends: Callable[[Peer], None]
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 1000)
        ends(peer)
        over.set()

    over, held = asyncio.Event(), fill(bulk)
    async with scripted(script) as server:
        posted = bulk.begin(server.url)
        await over.wait()
        await turns(20)
        for each in held:
            each.give_back()
        with pytest.raises(ExchangeError, match="broke off"):
            await posted


async def posted_to_one_who_refuses_and_leaves(bulk: Posting, answer: bytes) -> Answer:
    """A request that breaks while its answer waits for room."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(answer)
        await turns(20)
        peer.reset()
        over.set()

    over, held = asyncio.Event(), fill(bulk)
    async with scripted(script) as server:
        posted = bulk.begin(server.url, Row(TOO_MUCH))
        await over.wait()
        await turns(20)
        for each in held:
            each.give_back()
        return await posted


async def test_an_answer_of_which_a_part_is_here_when_its_request_breaks(bulk: Posting) -> None:
    with pytest.raises(ExchangeError, match="broke off"):
        await posted_to_one_who_refuses_and_leaves(bulk, refusing(b"x" * 2_000_000))


async def test_an_answer_that_is_here_when_its_request_breaks_is_taken_without_room(bulk: Posting) -> None:
    answer = await posted_to_one_who_refuses_and_leaves(bulk, refusing(ROOMY))
    assert (answer.status, answer.body) == (413, ROOMY)


# Who stops on the way.

SOON_S = 0.3
HALF = b"x" * 1_500_000


async def test_answers_that_stop_on_their_way_hold_up_others_for_one_look() -> None:
    going_on, memory, begun = asyncio.Event(), PayloadMemory(8 << 20, looked_at_every_s=SOON_S), list[Peer]()

    async def stopping(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: 3000000\r\n\r\n", HALF)
        begun.append(peer)
        await going_on.wait()
        await peer.send(HALF)

    async def prompt(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: 3000000\r\n\r\n", HALF, HALF)

    async with BulkClient() as client, scripted(stopping) as slow, scripted(prompt) as fast:
        bulk = Posting(client, memory)
        stopped = [bulk.begin(slow.url) for _ in range(LARGEST_SHARE)]
        await eventually(lambda: len(begun) == LARGEST_SHARE)
        async with asyncio.timeout(SOON_S * 20):
            assert (await bulk.post(fast.url)).body == HALF * 2
        going_on.set()
        assert [len((await each).body) for each in stopped] == [3_000_000] * LARGEST_SHARE
    assert memory.used_bytes == 0


async def test_an_answer_counts_while_it_moves() -> None:
    memory, used = PayloadMemory(8 << 20, looked_at_every_s=0.3), set[int]()

    async def moving(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"Content-Length: 400000\r\n\r\n")
        for _ in range(18):  # for two looks, a third of it for each
            await peer.send(b"x" * 20_000)
            used.add(memory.used_bytes)
            await asyncio.sleep(0.04)
        await peer.send(b"x" * 40_000)

    async with BulkClient() as client, scripted(moving) as server:
        await Posting(client, memory).post(server.url)
    assert used == {400_000}


async def test_requests_that_nobody_reads_hold_up_others_for_one_look() -> None:
    sending = PayloadMemory(8 << 20, looked_at_every_s=SOON_S)

    async def deaf(peer: Peer) -> None:
        await peer.head()
        await over.wait()

    async def listening(peer: Peer) -> None:
        await peer.request()
        await peer.send(SMALL)

    over = asyncio.Event()
    async with BulkClient() as client, scripted(deaf) as slow, scripted(listening) as fast:
        bulk = Posting(client, PayloadMemory())
        rows = [Row(TOO_MUCH, sending) for _ in range(LARGEST_SHARE)]
        stopped = [bulk.begin(slow.url, row) for row in rows]
        await eventually(lambda: all(row.reads for row in rows))
        async with asyncio.timeout(SOON_S * 20):
            assert (await bulk.post(fast.url, Row(b"x" * 1_000_000, sending))).body == b"{}"
        for each in stopped:
            each.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
        over.set()
    assert sending.used_bytes == 0


async def test_a_request_takes_no_room_before_it_is_connected(bulk: Posting) -> None:
    """A host that is down answers nothing to whoever connects, for as long as one waits."""
    sending = PayloadMemory()
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        filling = [socket.socket() for _ in range(3)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex(address)
        row = Row(sending=sending)
        posted = bulk.begin(f"http://127.0.0.1:{address[1]}/run", row)
        await asyncio.sleep(0.05)
        assert (sending.used_bytes, row.reads, posted.done()) == (0, 0, False)
        posted.cancel()
        await asyncio.gather(posted, return_exceptions=True)
        for each in filling:
            each.close()


async def test_a_request_that_waited_for_room_goes_over_a_living_connection(bulk: Posting) -> None:
    """The connection that was there before the wait may have ended meanwhile."""
    sending = PayloadMemory(8 << 20)
    held = [sending.reservation() for _ in range(LARGEST_SHARE)]
    assert all(each.take_now(1 << 20) for each in held)
    async with scripted() as server:
        posted = bulk.begin(server.url, Row(sending=sending))
        first = await server.accept()
        await turns()
        first.close()
        await turns()
        for each in held:
            each.give_back()
        second = await server.accept()
        await second.request()
        await second.send(SMALL)
        async with asyncio.timeout(PATIENCE_S):
            assert (await posted).body == b"{}"
    assert sending.used_bytes == 0
