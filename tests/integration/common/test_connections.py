"""What a machine that goes away without a word must not hold on to: the kernels watch every connection of ours."""

import asyncio
import socket

from aiohttp import web

from rollgym.common.binding import bind
from rollgym.driver.http_client import UNACKNOWLEDGED_S, open_client_session


def watched(connection: socket.socket) -> tuple[int, int, int]:
    """Whether a quiet peer is asked, after how many seconds, and the milliseconds that a silent one has."""
    tcp = socket.IPPROTO_TCP
    return (
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        connection.getsockopt(tcp, socket.TCP_KEEPIDLE),
        connection.getsockopt(tcp, socket.TCP_USER_TIMEOUT),
    )


def test_connections_of_a_service_are_watched() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert watched(accepted) == (1, 20, 0)


async def test_connections_of_the_driver_are_watched() -> None:
    seen = asyncio.Event()

    async def answer_slowly(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await seen.wait()
        return response

    app = web.Application()
    app.router.add_get("/", answer_slowly)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with open_client_session() as http, http.get(f"http://{host}:{port}/") as answer:
            assert answer.connection is not None
            assert answer.connection.transport is not None
            used = answer.connection.transport.get_extra_info("socket")
            assert watched(used) == (1, 20, int(UNACKNOWLEDGED_S * 1000))
            seen.set()
    finally:
        await runner.cleanup()
