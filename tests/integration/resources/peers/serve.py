"""Runs in the peer's own virtual environment: three servers made with openenv's `create_app`, in one process.

Importing openenv takes many seconds, so it is done once. Arguments: the ports of the counter, of the guessing game, and
of a guessing game for two sessions at a time.
"""

import asyncio
import sys

import uvicorn
from counter import Counter
from guessing import Guess, Guessing, Hint
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation


async def serve(ports: list[int]) -> None:
    apps = [
        create_app(Counter, CallToolAction, CallToolObservation, env_name="counter", max_concurrent_envs=8),
        create_app(Guessing, Guess, Hint, env_name="guessing", max_concurrent_envs=8),
        create_app(Guessing, Guess, Hint, env_name="guessing", max_concurrent_envs=2),
    ]
    servers = [
        uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
        for app, port in zip(apps, ports, strict=True)
    ]
    await asyncio.gather(*(server.serve() for server in servers))


if __name__ == "__main__":
    asyncio.run(serve([int(port) for port in sys.argv[1:]]))
