"""Slots and ends of sessions: every way a socket can end gives its slot back; capacity, idleness, vanished clients."""

import asyncio
import signal
import socket as sockets
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from integration.env_bundle.client import Admin, ask, hear, session, tell
from processes import running
from waiting import eventually

CLIENT = """
import sys, time
from websockets.sync.client import connect
socket = connect(sys.argv[1], compression=None, proxy=None, ping_interval=None)
socket.send('{"type":"reset","data":{}}')
socket.recv()
print("open", flush=True)
time.sleep(600)
"""


@contextmanager
def client_process(url: str) -> Iterator[subprocess.Popen[str]]:
    """A client in a process of its own, with an open session."""
    address = f"{url.replace('http', 'ws', 1)}/echo/ws"
    with subprocess.Popen([sys.executable, "-c", CLIENT, address], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


async def close_message(socket: ClientConnection) -> None:
    await tell(socket, "close")


async def close_frame(socket: ClientConnection) -> None:
    await socket.close()


async def end_of_file(socket: ClientConnection) -> None:
    socket.transport.close()


async def reset(socket: ClientConnection) -> None:
    raw = socket.transport.get_extra_info("socket")
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    socket.transport.abort()


@pytest.mark.parametrize("end", [close_message, close_frame, end_of_file, reset], ids=lambda end: end.__name__)
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "during-a-step"])
async def test_every_end_of_a_socket_frees_its_slot(
    url: str, admin: Admin, end: Callable[[ClientConnection], Awaitable[None]], busy: bool
) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        assert admin.active() == 1
        if busy:
            await tell(socket, "step", {"delay_s": 0.2 if end is close_message else 60})
        await end(socket)
        await eventually(lambda: admin.active() == 0)


async def test_a_killed_client_frees_its_slot(url: str, admin: Admin) -> None:
    with client_process(url) as process:
        assert admin.active() == 1
        process.kill()
        await eventually(lambda: admin.active() == 0)


async def test_a_client_that_stops_answering_pings_loses_its_slot() -> None:
    async with running(
        "gym-env-bundle", "serve", "--port", "0", "--admin", "--ping-interval", "0.2", "--ping-timeout", "0.3"
    ) as bundle:
        admin = Admin(bundle.url)
        with client_process(bundle.url) as process:
            process.send_signal(signal.SIGSTOP)
            await eventually(lambda: admin.active() == 0)
        admin.close()


async def test_capacity_is_told_after_the_handshake_and_a_freed_slot_is_usable_at_once() -> None:
    async with running("gym-env-bundle", "serve", "--port", "0", "--admin", "--max-sessions", "2") as bundle:
        admin = Admin(bundle.url)
        async with session(bundle.url) as one, session(bundle.url, "wordle") as two:
            await ask(one, "reset", {})
            await ask(two, "reset", {})
            async with session(bundle.url, "gridsim") as refused:
                error = await hear(refused)
                assert error["data"]["code"] == "CAPACITY_REACHED"
                assert (error["data"]["active_sessions"], error["data"]["max_sessions"]) == (2, 2)
                with pytest.raises(ConnectionClosedOK):
                    await hear(refused)
            await tell(one, "close")
            with pytest.raises(ConnectionClosedOK):
                await hear(one)
            async with session(bundle.url) as third:
                assert (await ask(third, "reset", {}))["type"] == "observation"
                assert (admin.metric("rollgym_env_slots"), admin.metric("rollgym_env_slots_in_use")) == (2, 2)
        stats = await eventually(lambda: (found := admin.stats())["active"] == 0 and found)
        assert (stats["opens"], stats["refused"], stats["peak"]) == (3, 1, 2)
        admin.close()


async def test_an_idle_session_is_closed_properly_and_a_busy_one_is_not() -> None:
    async with running("gym-env-bundle", "serve", "--port", "0", "--admin", "--idle-timeout", "0.4") as bundle:
        admin = Admin(bundle.url)
        async with session(bundle.url) as busy, session(bundle.url) as idle:
            await ask(idle, "reset", {})
            await ask(busy, "reset", {})
            step = asyncio.create_task(ask(busy, "step", {"message": "long", "delay_s": 1.0}))
            with pytest.raises(ConnectionClosed) as caught:
                await hear(idle)
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1001, "idle-timeout")
            assert admin.active() == 1
            assert (await step)["data"]["observation"]["message"] == "long"
            await eventually(lambda: admin.active() == 0)
        assert admin.stats()["closes"] == {"idle-timeout": 2}
        admin.close()


async def test_an_environment_that_cannot_be_made_is_a_factory_error(url: str, admin: Admin) -> None:
    async with session(url, "broken") as socket:
        error = (await hear(socket))["data"]
        assert (error["code"], error["factory_name"]) == ("FACTORY_ERROR", "Broken")
        assert "no licence" in error["message"]
        with pytest.raises(ConnectionClosedOK):
            await hear(socket)
    assert admin.active() == 0


async def test_1100_sessions_are_served_and_all_their_slots_come_back(url: str, admin: Admin) -> None:
    count = 1100
    held = asyncio.Event()
    opened = 0

    async def one(seed: int) -> int:
        nonlocal opened
        async with session(url, open_timeout=60) as socket:
            await ask(socket, "reset", {"seed": seed})
            opened += 1
            if opened == count:
                assert admin.active() == count
                held.set()
            await held.wait()
            answer = await ask(socket, "step", {})
            found: int = answer["data"]["observation"]["seed"]
            return found

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(seed)) for seed in range(count)]
    assert [task.result() for task in tasks] == list(range(count))
    await eventually(lambda: admin.active() == 0)
