"""What servers answer, however it arrives: whole, in pieces, in chunks, without a length, in an unasked coding."""

import gzip
import zlib
from dataclasses import dataclass

import pytest

from integration.driver.bulk_http.posting import Posting, Row
from integration.driver.bulk_http.scripted_server import Peer, scripted

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
JSON = b'{"reward": 0.5, "text": "' + b"x" * 300 + b'"}'
RAW_DEFLATE = zlib.compressobj(wbits=-15)
BIG = b"".join(b"%07d," % number for number in range(655_360))
"""5 MB in which no piece is like another."""


def sized(body: bytes, *headers: bytes, status: bytes = b"200 OK", version: bytes = b"1.1") -> bytes:
    lines = [b"HTTP/%s %s" % (version, status), b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


@dataclass(frozen=True)
class Case:
    raw: bytes
    status: int = 200
    body: bytes = JSON
    kept: bool = True
    """Whether the next request may use the same connection."""


ANSWERS = {
    "length": Case(sized(JSON)),
    "length-0": Case(sized(b""), body=b""),
    "length-1": Case(sized(b"x"), body=b"x"),
    "names-in-odd-case": Case(OK + b"cOnTENT-lENgTH:   1  \r\n\r\nx", body=b"x"),
    "blank-lines-before": Case(b"\r\n\r\n" + sized(JSON)),
    "no-reason": Case(b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", body=b"x"),
    "chunks": Case(CHUNKED + chunks(JSON[:7], JSON[7:])),
    "chunks-none": Case(CHUNKED + chunks(), body=b""),
    "chunks-with-extensions-and-trailers": Case(
        CHUNKED + b'3;a=b;c="d;e"\r\nabc\r\n0A;f\r\n0123456789\r\n000;g\r\nContent-Encoding: br\r\nX-Sum: 7\r\n\r\n',
        body=b"abc0123456789",
    ),
    "until-the-end-1.1": Case(OK + b"\r\n" + JSON, kept=False),
    "until-the-end-1.0": Case(b"HTTP/1.0 200 OK\r\n\r\n" + JSON, kept=False),
    "until-the-end-and-empty": Case(OK + b"\r\n", body=b"", kept=False),
    "until-the-end-in-another-order-of-codings": Case(
        OK + b"Transfer-Encoding: identity\r\n\r\n" + JSON, kept=False
    ),
    "close": Case(sized(JSON, b"Connection: close"), kept=False),
    "close-among-others": Case(sized(JSON, b"Connection: x, Close"), kept=False),
    "1.0": Case(sized(JSON, version=b"1.0"), kept=False),
    "1.0-that-keeps-alive": Case(sized(JSON, b"Connection: keep-alive", version=b"1.0")),
    "100-before": Case(b"HTTP/1.1 100 Continue\r\n\r\n" + sized(JSON)),
    "103-and-100-before": Case(
        b"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\nContent-Encoding: br\r\n\r\n"
        b"HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n" + sized(JSON)
    ),
    "204": Case(b"HTTP/1.1 204 No Content\r\n\r\n", status=204, body=b""),
    "204-in-gzip": Case(b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n", status=204, body=b""),
    "304-of-a-large-body": Case(
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99999999999\r\n\r\n", status=304, body=b""
    ),
    "400": Case(sized(JSON, status=b"400 Bad Request"), status=400),
    "503-in-chunks": Case(
        b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(JSON), status=503
    ),
    "599": Case(sized(b"", status=b"599 ?"), status=599, body=b""),
    "identity": Case(sized(JSON, b"Content-Encoding: identity")),
    "gzip": Case(sized(gzip.compress(JSON), b"Content-Encoding: GZip")),
    "x-gzip-in-chunks": Case(
        OK + b"Content-Encoding: x-gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(gzip.compress(JSON))
    ),
    "gzip-as-a-transfer-coding": Case(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks(gzip.compress(JSON))),
    "gzip-until-the-end": Case(OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(JSON), kept=False),
    "deflate": Case(sized(zlib.compress(JSON), b"Content-Encoding: deflate")),
    "deflate-raw": Case(
        sized(RAW_DEFLATE.compress(JSON) + RAW_DEFLATE.flush(), b"Content-Encoding: deflate")
    ),
}  # fmt: skip


@pytest.mark.parametrize("step", [1, 1 << 20], ids=["byte by byte", "in one piece"])
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in ANSWERS.items()])
async def test_an_answer_is_read_and_the_next_one_too(bulk: Posting, case: Case, step: int) -> None:
    pieces = [case.raw[at : at + step] for at in range(0, len(case.raw), step)]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        if case.kept:
            await peer.request()
            await peer.send(*pieces)
        peer.close()

    async with scripted(script) as server:
        for _ in range(2):
            answer = await bulk.post(server.url)
            assert (answer.status, bytes(answer.body)) == (case.status, case.body)
        assert len(server.peers) == (1 if case.kept else 2)


@pytest.mark.parametrize(
    "raw",
    [sized(JSON[:40]), CHUNKED + b'5;x="y"\r\nabcde\r\n1\r\nf\r\n0\r\nX: y\r\n\r\n'],
    ids=["length", "chunks"],
)
async def test_an_answer_may_be_split_anywhere(bulk: Posting, raw: bytes) -> None:
    async def script(peer: Peer) -> None:
        for at in range(1, len(raw)):
            await peer.request()
            await peer.send(raw[:at], raw[at:])

    async with scripted(script) as server:
        bodies = {bytes((await bulk.post(server.url)).body) for _ in range(1, len(raw))}
        assert bodies == {JSON[:40] if raw.startswith(OK + b"Content") else b"abcdef"}
        assert len(server.peers) == 1


@pytest.mark.parametrize(
    "raw", [sized(BIG), CHUNKED + chunks(BIG[:1], BIG[1:70_000], BIG[70_000:])], ids=["length", "chunks"]
)
@pytest.mark.parametrize("sizes", [(1, 4095, 4097, 65_537), (300_000, 7)], ids=str)
async def test_five_megabytes_in_odd_pieces(bulk: Posting, raw: bytes, sizes: tuple[int, ...]) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            at = 0
            while at < len(raw):
                for size in sizes:
                    await peer.send(raw[at : at + size])
                    at += size

    async with scripted(script) as server:
        for _ in range(2):
            assert (await bulk.post(server.url)).body == BIG
        assert len(server.peers) == 1


async def test_the_request_is_what_a_server_expects(bulk: Posting) -> None:
    requests = []

    async def script(peer: Peer) -> None:
        while True:
            requests.append(await peer.request())
            await peer.send(sized(b"{}"))

    async with scripted(script) as server:
        for content in (b'{"a": 1}', b"{}" * 3_000_000):
            await bulk.post(server.url, Row(content))
            head, _, body = requests.pop().partition(b"\r\n\r\n")
            lines = head.split(b"\r\n")
            assert lines[:2] == [b"POST /run HTTP/1.1", b"Host: 127.0.0.1:%d" % server.port]
            assert {b"Content-Type: application/json", b"Content-Length: %d" % len(content)} < set(lines)
            assert len({line.partition(b":")[0] for line in lines}) == len(lines)
            assert body == content
