"""Looks whether each server's port still takes connections: a dead process refuses, a busy one does not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from rollgym.common.logs import get_logger
from rollgym.head.registry import Registry, Server

CONNECT_TIMEOUT_S = 2.0
AT_ONCE = 32

log = get_logger(__name__)


async def refuses(host: str, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> bool:
    """Whether every address of `host` refuses a connection to `port`.

    False for anything that proves less: a connection, silence, an unknown name, an unreachable network.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for family, kind, protocol, _, address in found:
                if not await _refused_at(family, kind, protocol, address):
                    return False
    except (OSError, UnicodeError, TimeoutError):
        return False
    return bool(found)


async def _refused_at(family: int, kind: int, protocol: int, address: object) -> bool:
    with socket.socket(family, kind, protocol) as probe:
        probe.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(probe, address)  # type: ignore[arg-type]  # as getaddrinfo gave it
        except ConnectionRefusedError:
            return True
        return False


async def probe_all(registry: Registry) -> None:
    """One look at every server that can be judged by its port; what refuses is marked gone."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def probe(server: Server) -> None:
        async with limit:
            if await refuses(server.registration.host, server.registration.port):
                log.warning("a server's port refuses connections", instance_id=server.instance_id)
                registry.connection_refused(server)

    async with asyncio.TaskGroup() as looks:
        for server in registry.probeable():
            looks.create_task(probe(server))


@contextlib.asynccontextmanager
async def probing(registry: Registry, interval_s: float) -> AsyncIterator[None]:
    """While the block runs, look at every server each `interval_s` seconds."""

    async def look_again_and_again() -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await probe_all(registry)
            except Exception:  # one look that failed must not end all later ones
                log.exception("a look at the servers' ports failed")

    task = asyncio.create_task(look_again_and_again(), name="probing")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
