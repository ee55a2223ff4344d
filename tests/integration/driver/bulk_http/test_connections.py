"""Which connections are used again, by whom, and for how long; and that none brings a stray byte with it."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohappyeyeballs
import pytest
import uvloop

from integration.driver.bulk_http.posting import FiledRow, Posting, Row, posting
from integration.driver.bulk_http.scripted_server import Peer, full_listener, listening_socket, scripted, turns
from rollgym.driver.bulk_http import client as client_module
from rollgym.driver.bulk_http.answer import ExchangeError
from rollgym.driver.bulk_http.client import BulkClient
from rollgym.driver.event_loop import driver_event_loop
from rollgym.driver.payload_memory import PayloadMemory

OK = b"HTTP/1.1 200 OK\r\n"
SMALL = OK + b"Content-Length: 2\r\n\r\n{}"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
LARGE = OK + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000
MORE = {
    "rubbish": b"rubbish",
    "a-second-answer": OK + b"Content-Length: 5\r\n\r\nwrong",
    "half-an-answer": OK + b"Content-Le",
    "a-byte": b"H",
    "a-server-error": b"HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\nwrong",
}


async def answering(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(SMALL)


@pytest.mark.parametrize("more", [pytest.param(more, id=name) for name, more in MORE.items()])
@pytest.mark.parametrize(
    ("answer", "body"), [(SMALL, b"{}"), (CHUNKED, b"{}"), (LARGE, b"x" * 300_000)], ids=["small", "chunked", "large"]
)
async def test_what_comes_behind_an_answer_is_nobodys(bulk: Posting, answer: bytes, body: bytes, more: bytes) -> None:
    """It is there already when the next request is made, in the same turn of the loop."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer + more)
        await peer.left()

    async with scripted(script) as server:
        for _ in range(3):
            assert (await bulk.post(server.url)).body == body
        assert len(server.peers) == 3


def test_on_uvloop(tmp_path: Path) -> None:
    """Library callers bring their own event loop."""

    async def main() -> None:
        async with posting() as bulk, scripted(answering) as server:
            with closing(FiledRow(b"x" * 300_000, tmp_path)) as filed:
                for row in (Row(), filed, Row(b"x" * 300_000)):
                    assert (await bulk.post(server.url, row)).body == b"{}"
            assert len(server.peers) == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class _Unwoken(socket.socket):
    """Takes being woken late, and refuses to be woken by any byte again."""

    def setsockopt(self, *option: Any) -> None:
        if option == (socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1):
            raise PermissionError("not allowed here")
        super().setsockopt(*option)


async def test_a_socket_that_would_sleep_through_a_small_answer_is_not_used(
    bulk: Posting, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_Unwoken] = []

    async def start_connection(addresses: list[Any], **_: Any) -> socket.socket:
        made.append(_Unwoken())
        made[0].setblocking(False)
        await asyncio.get_running_loop().sock_connect(made[0], addresses[0][4])
        return made[0]

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", start_connection)
    async with scripted(answering) as server:
        with pytest.raises(PermissionError, match="not allowed here"):
            await bulk.post(server.url)
    assert made[0].fileno() == -1


@pytest.mark.parametrize("more", [pytest.param(more, id=name) for name, more in MORE.items()])
@pytest.mark.parametrize("seen", [True, False], ids=["the loop saw it", "the loop did not see it yet"])
async def test_what_comes_on_an_idle_connection_is_nobodys(bulk: Posting, more: bytes, seen: bool) -> None:
    async with scripted(answering) as server:
        await bulk.post(server.url)
        server.peers[0].send_now(more)
        if seen:
            await turns()
        assert (await bulk.post(server.url)).body == b"{}"
        assert len(server.peers) == 2


@pytest.mark.parametrize("ends", [Peer.close, Peer.reset], ids=["closed", "reset"])
@pytest.mark.parametrize("seen", [True, False], ids=["the loop saw it", "the loop did not see it yet"])
async def test_a_server_that_ends_idle_connections_costs_nothing(
    bulk: Posting, ends: Callable[[Peer], None], seen: bool
) -> None:
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(SMALL)

    async with scripted(script) as server:
        await asyncio.gather(*(bulk.post(server.url) for _ in range(5)))
        for peer in server.peers:
            ends(peer)
        if seen:
            await turns()
        assert (await bulk.post(server.url)).body == b"{}"
        assert (len(server.peers), len(requests)) == (6, 6)


@pytest.mark.parametrize("ends", [Peer.close, Peer.reset], ids=["closed", "reset"])
async def test_a_connection_that_ends_under_a_request_fails_it_and_it_is_not_sent_again(
    bulk: Posting, ends: Callable[[Peer], None]
) -> None:
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(SMALL)
        requests.append(await peer.request())
        ends(peer)

    async with scripted(script) as server:
        await bulk.post(server.url)
        row = Row()
        with pytest.raises(ExchangeError):
            await bulk.post(server.url, row)
        await turns()
        assert (len(server.peers), len(requests), row.reads) == (1, 2, 1)


async def test_requests_at_once_have_a_connection_each_and_later_ones_share_them(bulk: Posting) -> None:
    async with scripted(answering) as server:
        for _ in range(3):
            await asyncio.gather(*(bulk.post(server.url) for _ in range(20)))
        assert len(server.peers) == 20


async def test_places_share_no_connection_and_paths_do(bulk: Posting) -> None:
    async with scripted(answering) as one, scripted(answering) as other:
        for url in (one.url, other.url, one.url + "?again=yes", one.url.replace("127.0.0.1", "localhost")):
            await bulk.post(url)
        assert (len(one.peers), len(other.peers)) == (2, 1)


async def test_idle_connections_are_closed_in_time_and_those_in_use_are_not(
    bulk: Posting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "KEEPALIVE_S", 0.05)
    first_left = asyncio.Event()

    async def script(peer: Peer) -> None:
        request = await peer.request()
        if b"slow" in request:
            await first_left.wait()
        await peer.send(SMALL)
        await peer.left()
        first_left.set()

    async with scripted(script) as server:
        slow = bulk.begin(server.url, Row(b'"slow"'))
        await bulk.post(server.url)
        assert (await slow).body == b"{}"  # it waits until the other connection was closed for idleness
        async with asyncio.timeout(10):
            await server.peers[0].left()


async def test_the_clients_end_is_the_end_of_its_connections() -> None:
    async with scripted(answering) as server:
        async with BulkClient() as client:
            bulk = Posting(client, PayloadMemory())
            await asyncio.gather(*(bulk.post(server.url) for _ in range(3)))
        for peer in server.peers:
            await peer.left()


def test_a_client_for_each_event_loop() -> None:
    async def use() -> bytes | bytearray:
        async with posting() as bulk, scripted(answering) as server:
            await bulk.post(server.url)
            return (await bulk.post(server.url)).body

    for new_loop in (driver_event_loop, driver_event_loop, asyncio.new_event_loop):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(use()) == b"{}"


# Where a server is.


async def test_nothing_listens(bulk: Posting) -> None:
    with listening_socket() as closed:
        port = closed.getsockname()[1]
    row = Row()
    with pytest.raises(ConnectionRefusedError):
        await bulk.post(f"http://127.0.0.1:{port}/run", row)
    assert row.reads == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_localhost_is_found_by_whichever_address_it_has(bulk: Posting, host: str) -> None:
    addresses = {address[0] for *_, address in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)}
    if host not in addresses:
        pytest.skip(f"localhost is not {host} here")
    async with scripted(answering, host) as server:
        for _ in range(2):
            assert (await bulk.post(f"http://localhost:{server.port}/run")).status == 200
        assert len(server.peers) == 1


async def test_localhost_where_nothing_listens_on_any_address(bulk: Posting) -> None:
    with listening_socket() as closed:
        port = closed.getsockname()[1]
    with pytest.raises(OSError, match="Connect call failed"):
        await bulk.post(f"http://localhost:{port}/run")


async def test_an_ipv6_literal(bulk: Posting) -> None:
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(SMALL)

    try:
        listening_socket("::1").close()
    except OSError:
        pytest.skip("no IPv6 here")
    async with scripted(script, "::1") as server:
        assert (await bulk.post(f"http://[::1]:{server.port}/run")).status == 200
        assert b"\r\nHost: [::1]:%d\r\n" % server.port in requests[0]


async def test_an_unknown_host(bulk: Posting) -> None:
    with pytest.raises(socket.gaierror):
        await bulk.post("http://nowhere.invalid/run")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://S3NT1NEL@host/run",
        "http:///S3NT1NEL",
        "S3NT1NEL",
        "",
        "http://u:S3NT1NEL@host:99999/",
        "http://u:S3NT1NEL@[::1/run",
        "http://u:S3NT1NEL/@host/run",
    ],
)
async def test_what_is_no_url_to_post_to(bulk: Posting, url: str) -> None:
    with pytest.raises(ExchangeError, match="that is no") as failed:
        await bulk.post(url)
    assert "S3NT1NEL" not in str(failed.value)
    assert failed.value.__cause__ is None


async def test_a_host_name_that_can_be_none(bulk: Posting) -> None:
    with pytest.raises(ExchangeError, match="no host name"):
        await bulk.post(f"http://{'a' * 70}.example/run")


async def test_a_connection_that_does_not_come_about_in_time(bulk: Posting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_S", 0.05)
    with full_listener() as port, pytest.raises(ExchangeError, match=r"no connection within 0\.05 s"):
        await bulk.post(f"http://127.0.0.1:{port}/run")
