"""The one route that is called all the time: a tool's call, from the request's bytes to the answer's.

It speaks ASGI itself and is matched by a look in a set: routing tables, request and response objects cost more than
everything else that a short call does here.
"""

from __future__ import annotations

import time
from typing import cast

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from rollgym.common.disconnect import ClientDisconnected
from rollgym.common.errors import BadRequest
from rollgym.resources.server import ResourcesServer
from rollgym.resources.sessions import Session
from rollgym.resources.signing import COOKIE, SESSION_HEADER, cookie_value
from rollgym.resources.tools import RESERVED
from rollgym.resources.watching import ClientWatch

DONE_HEADER = (b"x-rollgym-done", b"1")
JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")

_SESSION_HEADER, _COOKIE = SESSION_HEADER.encode(), COOKIE.encode()


def session_in(scope: Scope) -> Session:
    """The session that a request belongs to, by `X-Session-Id` or cookie.

    Raises BadRequest where it names none, SessionUnknown for a guess or a forgery, SessionElsewhere for one of another
    process.
    """
    server = cast(ResourcesServer, scope["app"].state.resources)
    given = credential(scope)
    if given is None:
        raise BadRequest("no session: send the cookie that /seed_session set, or X-Session-Id")
    return server.book.found(server.signer.session_id(given) if "." in given else given)


def credential(scope: Scope) -> str | None:
    """The session's token or id as the request gives it; the header counts for more than the cookie."""
    found: str | None = None
    for name, value in scope["headers"]:
        if name == _SESSION_HEADER:
            return str(value.decode("latin-1")).strip()
        if name == b"cookie" and _COOKIE in value:
            found = cookie_value(value.decode("latin-1")) or found
    return found


async def read_body(receive: Receive) -> bytes:
    """The request's whole body. Raises ClientDisconnected."""
    message = await receive()
    body = cast(bytes, message.get("body", b""))
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return body


async def call_tool(scope: Scope, receive: Receive, send: Send) -> None:
    """Call one of the session's tools; the answer's text is what the model reads."""
    started = time.perf_counter()
    body = await read_body(receive)
    session = session_in(scope)
    async with ClientWatch(receive):
        result = await session.call(scope["path"][1:], body)
    scope["app"].state.resources.metrics.called(time.perf_counter() - started)
    text = result.answer.text
    headers = [JSON if result.answer.is_json else TEXT, (b"content-length", b"%d" % len(text))]
    if result.done:
        headers.append(DONE_HEADER)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


class ToolRoute(BaseRoute):
    """`POST /<tool>`: any one-segment path that is no route of this server."""

    path = "/{tool}"

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] != "POST":
            return Match.NONE, {}
        name = scope["path"][1:]
        if not name or "/" in name or name in RESERVED:
            return Match.NONE, {}
        return Match.FULL, {"endpoint": call_tool}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await call_tool(scope, receive, send)
