"""A plain WebSocket client of the bundle, and what befell it in one word."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from plain_http import PLAIN

Frame = dict[str, Any]
ANSWER_S = 10.0
SILENCE_S = 0.25


@asynccontextmanager
async def session(url: str, env: str = "echo", **options: Any) -> AsyncIterator[ClientConnection]:
    """A socket to an environment; closed at the end without waiting long for the server's goodbye."""
    address = f"{url.replace('http', 'ws', 1)}/{env}/ws" if env else f"{url.replace('http', 'ws', 1)}/ws"
    settings = {"compression": None, "ping_interval": None, "close_timeout": 0.3, "max_size": None, "proxy": None}
    async with connect(address, **{**settings, **options}) as socket:
        yield socket


async def ask(socket: ClientConnection, kind: str, data: Frame | None = None) -> Frame:
    """One request and its answer."""
    await tell(socket, kind, data)
    return await hear(socket)


async def tell(socket: ClientConnection, kind: str, data: Frame | None = None) -> None:
    await socket.send(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))


async def hear(socket: ClientConnection, timeout_s: float = ANSWER_S) -> Frame:
    async with asyncio.timeout(timeout_s):
        frame: Frame = json.loads(await socket.recv())
    return frame


async def befalls(url: str, *, phase: str, silence_s: float = SILENCE_S) -> str:
    """Go through a whole session and say what came where the phase's answer should have: a frame's type or an error
    frame's code, `bad json`, `closed CODE`, `cut`, `reset`, `silence`, or `http STATUS`."""
    try:
        async with asyncio.timeout(silence_s if phase == "handshake" else ANSWER_S), session(url) as socket:
            return await _in_phase(socket, phase, silence_s)
    except TimeoutError:
        return "silence"
    except InvalidStatus as refused:
        return f"http {refused.response.status_code}"
    except (ConnectionClosed, InvalidHandshake, OSError, EOFError) as error:
        return _ending(error)


async def _in_phase(socket: ClientConnection, phase: str, silence_s: float) -> str:
    if phase == "handshake":
        return await next_thing(socket, silence_s / 2)
    if phase != "reset":
        await ask(socket, "reset", {})
    requests: dict[str, Frame | None] = {"reset": {}, "step": {"message": "hi"}, "state": None, "close": None}
    if phase in requests:
        await tell(socket, phase, requests[phase])
    return await next_thing(socket, silence_s)


async def next_thing(socket: ClientConnection, silence_s: float = SILENCE_S) -> str:
    """What comes next on a socket, in the words of `befalls`."""
    try:
        async with asyncio.timeout(silence_s):
            raw = await socket.recv()
    except TimeoutError:
        return "silence"
    except ConnectionClosed as closed:
        return _ending(closed)
    try:
        frame = json.loads(raw)
    except ValueError:
        return "bad json"
    code: str = frame["data"].get("code", frame["type"])
    return code


def _ending(error: BaseException | None) -> str:
    """`closed CODE` where a close frame came, else `reset` or `cut`."""
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        return f"closed {error.rcvd.code}"
    while error is not None:
        if isinstance(error, ConnectionResetError):
            return "reset"
        error = error.__cause__ or error.__context__
    return "cut"


class Admin:
    """The admin routes of one bundle."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=10, verify=PLAIN)

    def close(self) -> None:
        self._client.close()

    def stats(self) -> Frame:
        return self._json(self._client.get("/admin/stats"))

    def active(self) -> int:
        active: int = self.stats()["active"]
        return active

    def put_faults(self, *faults: Frame) -> Frame:
        return self._json(self._client.put("/admin/faults", json={"faults": faults}))

    def faults(self) -> Frame:
        return self._json(self._client.get("/admin/faults"))

    def lift_faults(self) -> Frame:
        return self._json(self._client.delete("/admin/faults"))

    def injected(self, kind: str) -> float:
        """The metric's count of a kind."""
        return self.metric(f'rollgym_env_faults_injected_total{{kind="{kind}"}}')

    def metric(self, name: str) -> float:
        lines = self._client.get("/metrics").raise_for_status().text.split("\n")
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} "))

    def _json(self, answer: httpx.Response) -> Frame:
        found: Frame = answer.raise_for_status().json()
        return found
