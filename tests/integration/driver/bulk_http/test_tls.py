"""Agent servers behind TLS: whose certificates are trusted, and that connections and bodies are the same there."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from integration.driver.bulk_http.posting import ROW, FiledRow, Posting, Row, posting
from integration.driver.bulk_http.scripted_server import turns
from integration.driver.bulk_http.test_room import fill
from rollgym.driver.bulk_http.answer import ExchangeError
from waiting import eventually

OK = b"HTTP/1.1 200 OK\r\n"
LARGE = b"".join(b"%07d," % number for number in range(262_144))
"""2 MB in which no piece is like another."""

Answerer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, *names, "-keyout", path, "-out", path.with_suffix(".crt")], check=True, capture_output=True)
    with path.open("ab") as both:
        both.write(path.with_suffix(".crt").read_bytes())
    return path


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@asynccontextmanager
async def serving(certificate: Path, answer: Answerer) -> AsyncIterator[tuple[int, list[asyncio.StreamWriter]]]:
    """Runs `answer` for each connection; gives the port, and the connections so far."""
    connections: list[asyncio.StreamWriter] = []
    under_way: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.current_task())
        connections.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await answer(reader, writer)
        writer.transport.abort()
        under_way.discard(asyncio.current_task())

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=server_context(certificate))
    try:
        yield server.sockets[0].getsockname()[1], connections
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()
        await eventually(lambda: not under_way)


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))


def answering(*pieces: bytes) -> Answerer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()

    return answer


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    return certificate


async def test_a_certificate_that_nobody_vouches_for_is_refused(bulk: Posting, certificate: Path) -> None:
    async with serving(certificate, answering(OK + b"\r\n")) as (port, _):
        with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
            await bulk.post(f"https://localhost:{port}/run")


async def test_a_certificate_for_another_name_is_refused(bulk: Posting, trusted: Path) -> None:
    async with serving(trusted, answering(OK + b"\r\n")) as (port, _):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for '127\.0\.0\.1'"):
            await bulk.post(f"https://127.0.0.1:{port}/run")


async def test_plain_http_where_tls_is_expected(bulk: Posting) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ssl.SSLError):
            await bulk.post(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/run")


ANSWERS = {
    "empty": (b"", [OK + b"Content-Length: 0\r\n\r\n"]),
    "small": (b"{}", [OK + b"Content-Length: 2\r\n\r\n{}"]),
    "head-and-body": (b"{}", [OK + b"Content-Length: 2\r\n\r\n", b"{}"]),
    "large": (LARGE, [OK + b"Content-Length: %d\r\n\r\n" % len(LARGE), LARGE]),
    "chunks": (
        LARGE,
        [OK + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(LARGE), LARGE)],
    ),
}


def test_on_uvloop(trusted: Path) -> None:
    """Its transports pause and resume within one write: a row is said to be sent once all the same."""

    async def main() -> None:
        async with posting() as bulk, serving(trusted, answering(OK + b"Content-Length: 2\r\n\r\n{}")) as (port, _):
            for size in (0, 100, 70_000, 3_000_000):
                row = Row(b"x" * size)
                assert (await bulk.post(f"https://localhost:{port}/run", row)).body == b"{}"
                assert row.sent_after == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize(("body", "pieces"), [pytest.param(*case, id=name) for name, case in ANSWERS.items()])
async def test_connections_are_kept(bulk: Posting, trusted: Path, body: bytes, pieces: list[bytes]) -> None:
    async with serving(trusted, answering(*pieces)) as (port, connections):
        for _ in range(5):
            row = Row(b'"%s"' % (b"r" * 1_000_000))
            assert (await bulk.post(f"https://localhost:{port}/run", row)).body == body
            assert row.sent_after == 1
        assert len(connections) == 1


async def test_a_row_in_a_file_goes_encrypted(bulk: Posting, trusted: Path, tmp_path: Path) -> None:
    received = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append((await request(reader)).partition(b"\r\n\r\n")[2])
        writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        await writer.drain()

    with contextlib.closing(FiledRow(LARGE, tmp_path)) as row:
        async with serving(trusted, answer) as (port, _):
            assert (await bulk.post(f"https://localhost:{port}/run", row)).body == b"{}"
    assert received == [LARGE]


def answer_bluntly(listening: socket.socket, certificate: Path, raw: bytes) -> ssl.SSLSocket:
    """As many servers do: the connection ends right behind the answer, without TLS's own farewell. Blocks."""
    connected, _ = listening.accept()
    connected.settimeout(20)
    secure = server_context(certificate).wrap_socket(connected, server_side=True)
    while not secure.recv(65_536).endswith(ROW):
        pass
    secure.sendall(raw)
    secure.shutdown(socket.SHUT_WR)
    return secure


@pytest.mark.parametrize(
    ("size", "full"),
    [(200_000, False), (200_000, True), (len(LARGE), False)],
    ids=["200 KB", "200 KB after waiting for room", "2 MB"],
)
@pytest.mark.parametrize("framing", ["length", "chunks", "the connection"])
async def test_a_body_is_whole_although_the_server_leaves_behind_it(
    bulk: Posting, trusted: Path, framing: str, size: int, full: bool
) -> None:
    """The end may be seen while asyncio still holds what came before it; 200 KB it holds without a pause."""
    body = LARGE[:size]
    raw = {
        "length": OK + b"Content-Length: %d\r\n\r\n%s" % (size, body),
        "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (size, body),
        "the connection": OK + b"\r\n" + body,
    }[framing]
    held = fill(bulk) if full else []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        posted = bulk.begin(f"https://localhost:{listening.getsockname()[1]}/run")
        with await asyncio.to_thread(answer_bluntly, listening, trusted, raw):
            await turns(50)
            for each in held:
                each.give_back()
            assert (await posted).body == body


async def test_what_comes_behind_an_answer_is_nobodys(bulk: Posting, trusted: Path) -> None:
    for answer in (OK + b"Content-Length: 2\r\n\r\n{}", OK + b"Content-Length: %d\r\n\r\n%s" % (len(LARGE), LARGE)):
        body = answer.partition(b"\r\n\r\n")[2]
        async with serving(trusted, answering(answer + OK + b"Content-Length: 5\r\n\r\nwrong")) as (port, _):
            for _ in range(3):
                assert (await bulk.post(f"https://localhost:{port}/run")).body == body


async def test_a_connection_that_breaks(bulk: Posting, trusted: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK + b"Content-Length: 9\r\n\r\nabc")
        await writer.drain()
        writer.transport.abort()

    async with serving(trusted, answer) as (port, _):
        with pytest.raises(ExchangeError, match="broke off"):
            await bulk.post(f"https://localhost:{port}/run")


async def test_cancelled_after_any_number_of_turns_of_the_loop(bulk: Posting, trusted: Path) -> None:
    """Each opens a connection of its own; the host's addresses are known from the first."""
    async with serving(trusted, answering(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")) as (port, _):
        await bulk.post(f"https://localhost:{port}/run")
        for count in range(60):
            posted = bulk.begin(f"https://localhost:{port}/run")
            await turns(count)
            posted.cancel()
            await asyncio.gather(posted, return_exceptions=True)
        assert (await bulk.post(f"https://localhost:{port}/run")).body == b"{}"
