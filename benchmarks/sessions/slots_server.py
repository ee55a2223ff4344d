"""An environment server with a number of slots that notes when each was freed, when used again, and in whose order."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

SLOTS = int(sys.argv[1]) if __name__ == "__main__" else 0
notes: dict[str, list[float]] = {"freed": [], "used": [], "seeds": [], "connections": []}
numbers = itertools.count()
active = refused = 0


class Numbered(ServerConnection):
    """A connection that knows how many were made before it: the kernel hands them over in the order of the connects."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.number = next(numbers)


def stats(connection: ServerConnection, request: Request) -> Response | None:
    if request.path == "/ws":
        return None
    if request.path != "/stats":
        return connection.respond(404, "")
    return connection.respond(200, json.dumps({**notes, "active": active, "refused": refused}))


async def session(connection: ServerConnection) -> None:
    assert isinstance(connection, Numbered)
    global active, refused  # noqa: PLW0603 - one process, one server, one set of slots
    if active >= SLOTS:
        refused += 1
        counts = {"active_sessions": active, "max_sessions": SLOTS}
        full = {"message": "Server at capacity", "code": "CAPACITY_REACHED", **counts}
        await connection.send(json.dumps({"type": "error", "data": full}))
        return
    active += 1
    notes["used"].append(time.monotonic())
    try:
        await play(connection)
    except ConnectionClosed:
        pass
    finally:
        active -= 1
        notes["freed"].append(time.monotonic())


async def play(connection: Numbered) -> None:
    async for raw in connection:
        message = json.loads(raw)
        data = message.get("data", {})
        if message["type"] == "close":
            return
        if message["type"] == "reset":
            notes["seeds"].append(data["seed"])
            notes["connections"].append(connection.number)
        done = bool(data.get("done"))
        seen: dict[str, Any] = {"observation": {}, "reward": 1.0 if done else None, "done": done}
        await connection.send(json.dumps({"type": "observation", "data": seen}))


async def main() -> None:
    async with serve(
        session, "127.0.0.1", 0, process_request=stats, create_connection=Numbered, backlog=4096, compression=None
    ) as server:
        print(f"slots listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
