"""The stand-ins' HTTP: whole requests however they arrive, one answer each, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from rollgym.driver.simulate.raw_http import Connection, Request
from waiting import eventually


@asynccontextmanager
async def _serving(waiting: list[Connection] | None = None) -> AsyncIterator[int]:
    """Answers with the length of the body; with `waiting` it leaves the answer to the test."""

    def handle(connection: Connection, request: Request) -> None:
        if waiting is not None:
            waiting.append(connection)
        else:
            connection.reply([b'{"path":"', request.path.encode(), b'","bytes":', b"%d}" % len(request.body)])

    server = await asyncio.get_running_loop().create_server(lambda: Connection(handle), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_aiohttp_reads_its_answers_over_one_connection() -> None:
    async with _serving() as port, aiohttp.ClientSession() as http:
        for size in (0, 1, 1_000_000):
            async with http.post(f"http://127.0.0.1:{port}/run", data=b"x" * size) as response:
                assert await response.json() == {"path": "/run", "bytes": size}


@pytest.mark.parametrize("cut", [1, 10, 30, 58, 60], ids=lambda cut: f"after {cut} bytes")
async def test_a_request_in_two_parts_is_one_request(cut: int) -> None:
    request = b"POST /run HTTP/1.1\r\nHost: here\r\ncontent-length: 5\r\n\r\nhello"
    async with _serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request[:cut])
        await writer.drain()
        writer.write(request[cut:])
        assert b'"bytes":5}' in await asyncio.wait_for(reader.readuntil(b"}"), 5)
        writer.close()
        await writer.wait_closed()


async def test_a_body_in_chunks_is_joined_however_it_is_cut() -> None:
    request = (
        b"POST /run HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n"
        b"POST /next HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    )
    async with _serving() as port:
        for step in (1, 3, 7, 40, len(request)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for at in range(0, len(request), step):
                writer.write(request[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)
            answers = [await asyncio.wait_for(reader.readuntil(b"}"), 5) for _ in range(2)]
            told = [answer.partition(b"{")[2] for answer in answers]
            assert told == [b'"path":"/run","bytes":15}', b'"path":"/next","bytes":2}']
            writer.close()
            await writer.wait_closed()


async def test_aiohttps_chunks_are_read() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 10_000

    async with _serving() as port, aiohttp.ClientSession() as http:
        for _ in range(2):
            async with http.post(f"http://127.0.0.1:{port}/run", data=parts()) as response:
                assert await response.json() == {"path": "/run", "bytes": 500_000}


async def test_requests_sent_at_once_are_answered_in_order() -> None:
    async with _serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path in (b"/a", b"/b", b"/c"):
            writer.write(b"POST %s HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}" % path)
        answers = [await asyncio.wait_for(reader.readuntil(b"}"), 5) for _ in range(3)]
        assert [answer.split(b'"path":"')[1][:2] for answer in answers] == [b"/a", b"/b", b"/c"]
        writer.close()
        await writer.wait_closed()


async def test_an_answer_to_a_client_that_left_goes_nowhere() -> None:
    waiting: list[Connection] = []
    async with _serving(waiting) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /run HTTP/1.1\r\n\r\n")
        await eventually(lambda: waiting)
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: not waiting[0].is_open)
        waiting[0].reply([b"{}"])
