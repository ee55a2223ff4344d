"""ASGI middleware that every service has: bugs answered, a bound on request bodies, and the optional bearer token."""

import hmac
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollgym.common import jsonx
from rollgym.common.errors import PayloadTooLarge, RollgymError, Unauthorized
from rollgym.common.logs import get_logger

log = get_logger(__name__)


async def _refuse(error: RollgymError, scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})
        return
    body = jsonx.dumps(error.to_wire())
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Bugs:
    """Answers 500 to a request whose handler raised what nobody expected, and logs its traceback.

    Left to the server, such an error closes the connection after its answer, and with it the next request that a
    client with a pool has just sent there.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answering = False

        async def noted_send(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, receive, noted_send)
        except Exception as error:
            log.exception("a request met a bug", method=scope["method"], path=scope["path"])
            if answering:
                raise  # half an answer is out: only a closed connection tells the client
            await _refuse(RollgymError(f"internal error: {type(error).__name__}"), scope, send)


class BodyLimit:
    """Answers 413 to a request whose body is, or turns out, larger than `max_bytes`."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await _refuse(self._error(int(announced)), scope, send)
            return
        seen, answering = 0, False

        async def bounded_receive() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > self._max_bytes:
                    raise self._error(seen)
            return message

        async def noted_send(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, bounded_receive, noted_send)
        except PayloadTooLarge as error:
            if answering:
                raise
            await _refuse(error, scope, send)

    def _error(self, size: int) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"the request body has {size:,} bytes or more; at most {self._max_bytes:,} are taken (max_body_bytes)",
            size=size,
            max_bytes=self._max_bytes,
        )


class BearerToken:
    """Answers 401 on every path but `open_paths` unless the request carries ``Authorization: Bearer <token>``."""

    def __init__(self, app: ASGIApp, token: str, open_paths: Collection[str]) -> None:
        self._app, self._expected, self._open_paths = app, f"Bearer {token}".encode(), frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in self._open_paths:
            given = Headers(scope=scope).get("authorization", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(given, self._expected):
                await _refuse(Unauthorized("this server asks for a bearer token"), scope, send)
                return
        await self._app(scope, receive, send)
