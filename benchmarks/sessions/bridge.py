"""The bare bridge: one Starlette route that forwards one request to one socket. No sessions, no checks: the limit."""

import itertools
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.asyncio.client import ClientConnection, connect

URL = sys.argv[2] if __name__ == "__main__" else ""
sockets: dict[str, ClientConnection] = {}
numbers = itertools.count()


async def forward(request: Request) -> Response:
    name = request.query_params.get("s") or str(next(numbers))
    if name not in sockets:
        sockets[name] = await connect(URL, compression=None, max_size=None)
    await sockets[name].send(await request.body(), text=True)
    return Response(await sockets[name].recv(decode=False), media_type="application/json", headers={"x-socket": name})


async def close(request: Request) -> Response:
    await sockets.pop(request.query_params["s"]).close()
    return Response()


if __name__ == "__main__":
    app = Starlette(routes=[Route("/", forward, methods=["POST"]), Route("/close", close, methods=["POST"])])
    print(f"bridge listening on http://127.0.0.1:{sys.argv[1]}", flush=True)
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", loop="uvloop")
