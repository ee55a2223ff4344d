"""What is no answer: each is a failed exchange with a message for a person, and the connection is closed."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from integration.driver.bulk_http.posting import Posting
from integration.driver.bulk_http.scripted_server import Peer, scripted
from rollgym.common.errors import PayloadTooLarge
from rollgym.driver.bulk_http.answer import ExchangeError

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TAIL = b"Content-Length: 2\r\n\r\n{}"


@dataclass(frozen=True)
class Case:
    raw: bytes
    says: str
    then: Callable[[Peer], None] | None = Peer.close
    """What the server does when it has sent that; None: it waits for the client to leave."""


def coded(coding: str, body: bytes) -> bytes:
    return OK + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (coding.encode(), len(body), body)


BROKEN = {
    "nothing": Case(b"", "closed the connection without an answer"),
    "nothing-and-a-reset": Case(b"", "reset by peer", Peer.reset),
    "closed-in-the-status-line": Case(b"HTTP/1.1 20", "closed the connection without an answer"),
    "closed-in-the-head": Case(OK + b"Content-Le", "closed the connection without an answer"),
    "closed-after-an-interim-answer": Case(b"HTTP/1.1 100 Continue\r\n\r\n", "closed the connection without an answer"),
    "closed-before-the-body": Case(OK + b"Content-Length: 2\r\n\r\n", "broke off"),
    "closed-in-the-body": Case(OK + b"Content-Length: 200000\r\n\r\n" + b"x" * 199_999, "broke off"),
    "closed-in-a-chunk": Case(CHUNKED + b"5\r\nabc", "broke off"),
    "closed-between-chunks": Case(CHUNKED + b"3\r\nabc\r\n", "broke off"),
    "closed-in-the-last-chunk": Case(CHUNKED + b"3\r\nabc\r\n0\r\n", "broke off"),
    "reset-in-the-head": Case(OK + b"Content-Le", "reset by peer", Peer.reset),
    "reset-in-the-body": Case(OK + b"Content-Length: 9\r\n\r\nabc", "broke off.*reset by peer", Peer.reset),
    "reset-in-a-large-body": Case(
        OK + b"Content-Length: 300000\r\n\r\n" + b"x" * 50_000, "broke off.*reset by peer", Peer.reset
    ),
    "reset-in-a-chunk": Case(CHUNKED + b"5\r\nabc", "broke off.*reset by peer", Peer.reset),
    "reset-in-a-body-without-length": Case(OK + b"\r\nabc", "broke off.*reset by peer", Peer.reset),
    "rubbish": Case(b"\x16\x03\x01\x02\x00\x01\x00", "no HTTP", None),
    "html": Case(b"<html><body>busy</body></html>", "no HTTP", None),
    "another-protocol": Case(b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP", None),
    "rubbish-in-the-head": Case(OK + b"no colon here\r\n\r\n", "no HTTP", None),
    "rubbish-for-a-chunk": Case(CHUNKED + b"3\r\nabc\r\nzz\r\n", "no HTTP", None),
    "a-length-that-is-none": Case(OK + b"Content-Length: two\r\n\r\n{}", "no HTTP", None),
    "a-negative-length": Case(OK + b"Content-Length: -1\r\n\r\n{}", "no HTTP", None),
    "an-endless-length": Case(OK + b"Content-Length: 99999999999999999999999\r\n\r\n{}", "no HTTP", None),
    "two-lengths": Case(OK + b"Content-Length: 3\r\n" + TAIL, "no HTTP", None),
    "a-length-and-chunks": Case(OK + b"Transfer-Encoding: chunked\r\n" + TAIL, "no HTTP", None),
    "a-status-that-is-none": Case(b"HTTP/1.1 099 What\r\n" + TAIL, "status is 99", None),
    "another-protocol-from-now-on": Case(
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + OK + TAIL, "status is 101", None
    ),
    "a-header-of-70-KB": Case(OK + b"X: " + b"x" * 70_000 + b"\r\n" + TAIL, "head is longer than 65536", None),
    "headers-of-70-KB": Case(OK + b"X: 1234\r\n" * 14_000 + TAIL, "head is longer than 65536", None),
    "a-head-without-end": Case(OK + b"X: " + b"x" * 200_000, "head is longer than 65536", None),
    "interim-answers-without-end": Case(b"HTTP/1.1 103 Wait\r\n\r\n" * 4_000, "head is longer than 65536", None),
    "trailers-without-end": Case(
        CHUNKED + b"1\r\nx\r\n0\r\n" + b"X: 1234\r\n" * 14_000, "head is longer than 65536", None
    ),
    "no-gzip": Case(coded("gzip", b"{}"), "no gzip", None),
    "half-a-gzip": Case(coded("gzip", gzip.compress(b"x" * 999)[:-9]), "gzip broke off", None),
    "gzip-and-more": Case(coded("gzip", gzip.compress(b"{}") * 2), "gzip goes on after its end", None),
    "no-deflate": Case(coded("deflate", b"\xff\xff\xff"), "no deflate", None),
    "a-wrong-sum": Case(coded("deflate", zlib.compress(b"{}")[:-1] + b"x"), "no deflate", None),
    "brotli": Case(coded("br", b"\x0b\x00\x80{}\x03"), "unknown content coding: br", None),
    "two-codings": Case(coded("gzip, deflate", b"{}"), "unknown content coding: gzip, deflate", None),
    "a-coding-that-is-no-text": Case(OK + b"Content-Encoding: \xff\r\n" + TAIL, "unknown content coding", None),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in BROKEN.items()])
async def test_what_is_no_answer_is_a_failed_exchange(bulk: Posting, case: Case) -> None:
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(case.raw)
        if case.then is None:
            await peer.left()
        else:
            case.then(peer)

    async with scripted(script) as server:
        with pytest.raises(ExchangeError, match=case.says) as failed:
            await bulk.post(server.url)
        assert len(str(failed.value)) < 200
        with pytest.raises(ExchangeError, match=case.says):
            await bulk.post(server.url)
    assert len(requests) == 2, "one for each post: none is sent again"


LIMIT = 1 << 20

TOO_LARGE = {
    "announced": OK + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1),
    "announced-far-beyond": OK + b"Content-Length: %d\r\n\r\n" % (1 << 60),
    "in-one-chunk": CHUNKED + b"%x\r\n" % (LIMIT * 2) + b"x" * (LIMIT + 1),
    "in-many-chunks": CHUNKED + b"1\r\nx\r\n" * (LIMIT + 1),
    "without-a-length": OK + b"\r\n" + b"x" * (LIMIT + 1),
    "a-gzip-bomb": coded("gzip", gzip.compress(bytes(LIMIT + 1))),
    "a-deflate-bomb": coded("deflate", zlib.compress(bytes(LIMIT * 20))),
}  # fmt: skip


@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in TOO_LARGE.items()])
async def test_a_body_over_the_limit_is_refused(bulk: Posting, raw: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)
        await peer.left()

    async with scripted(script) as server:
        with pytest.raises(PayloadTooLarge) as refused:
            await bulk.post(server.url, limit_bytes=LIMIT)
    assert refused.value.data["terminal"]
    assert refused.value.data["limit_bytes"] == LIMIT
    assert refused.value.data["received_bytes"] > LIMIT


@pytest.mark.parametrize(
    "raw",
    [
        OK + b"Content-Length: %d\r\n\r\n" % LIMIT + b"x" * LIMIT,
        CHUNKED + b"%x\r\n" % LIMIT + b"x" * LIMIT + b"\r\n0\r\n\r\n",
        coded("gzip", gzip.compress(b"x" * LIMIT)),
    ],
    ids=["announced", "chunks", "gzip"],
)
async def test_a_body_of_just_the_limit_is_not(bulk: Posting, raw: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)
        await peer.left()

    async with scripted(script) as server:
        assert (await bulk.post(server.url, limit_bytes=LIMIT)).body == b"x" * LIMIT


@pytest.mark.parametrize("head", [CHUNKED, OK + b"\r\n"], ids=["chunks", "without a length"])
async def test_of_an_endless_body_about_the_limit_is_received(bulk: Posting, head: bytes) -> None:
    """The rest of what the server sends before it notices is in the kernels' buffers, a few megabytes."""
    limit, piece, sent = 32 << 20, b"10000\r\n" + b"x" * 65_536 + b"\r\n", 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(head)
        while True:
            await peer.send(piece)
            sent += len(piece)

    async with scripted(script) as server:
        with pytest.raises(PayloadTooLarge):
            await bulk.post(server.url, limit_bytes=limit)
    assert limit - (1 << 20) < sent < limit + (12 << 20)
