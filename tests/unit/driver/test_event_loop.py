"""The driver's event loop: bounded turns, and no socket left behind."""

import asyncio
import selectors
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from rollgym.driver.event_loop import BoundedEpollSelector, driver_event_loop

Pairs = list[tuple[socket.socket, socket.socket]]


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    made = [socket.socketpair() for _ in range(40)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


def test_a_call_reports_at_most_the_bound_and_every_socket_gets_its_turn(pairs: Pairs) -> None:
    with BoundedEpollSelector(most=4) as selector:
        for near, far in pairs:
            selector.register(near, selectors.EVENT_READ)
            far.send(b"x")
        seen: Counter[int] = Counter()
        for _ in range(20):
            ready = selector.select(0)
            assert len(ready) == 4
            seen.update(key.fd for key, _ in ready)
    assert set(seen.values()) == {2}
    assert len(seen) == len(pairs)


def test_it_reports_what_was_asked_for(pairs: Pairs) -> None:
    near, far = pairs[0]
    with BoundedEpollSelector() as selector:
        selector.register(near, selectors.EVENT_WRITE, "data")
        assert [(key.data, events) for key, events in selector.select(0)] == [("data", selectors.EVENT_WRITE)]
        selector.modify(near, selectors.EVENT_READ, "other")
        assert selector.select(0) == []
        far.close()
        assert [(key.data, events) for key, events in selector.select(1)] == [("other", selectors.EVENT_READ)]
        selector.unregister(near)
        assert selector.select(0) == []
        with pytest.raises(KeyError):
            selector.get_key(near)


def test_a_closed_socket_can_still_be_unregistered(pairs: Pairs) -> None:
    near, _ = pairs[0]
    with BoundedEpollSelector() as selector:
        selector.register(near, selectors.EVENT_READ)
        near.close()
        selector.unregister(near)
        assert not selector.get_map()


def test_asyncio_works_on_it() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def call(port: int, number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"%d\n" % number)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def main() -> list[bytes]:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.gather(*(call(port, number) for number in range(100)))

    with asyncio.Runner(loop_factory=driver_event_loop) as runner:
        assert runner.run(main()) == [b"%d\n" % number for number in range(100)]
