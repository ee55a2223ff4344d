"""Where this head is reached, as whoever asks sees it: a port may be free-picked, a host may be a container's name."""

from __future__ import annotations

import re
import socket

from starlette.requests import Request

from rollgym.head.settings import HeadSettings

WILDCARDS = frozenset({"0.0.0.0", "::", ""})
_HOST_HEADER = re.compile(
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>\d{1,5}))?", re.ASCII
)


def head_address(request: Request, settings: HeadSettings) -> tuple[str, int]:
    """The head's host and port: as configured, as bound, or, bound to all interfaces, as the request names it."""
    _, bound_port = request.scope.get("server") or ("", settings.port)
    port = bound_port or settings.port
    if settings.advertise_host:
        return settings.advertise_host, port
    if settings.host not in WILDCARDS:
        return settings.host, port
    named = _HOST_HEADER.fullmatch(request.headers.get("host", ""))
    if named is None:
        return socket.gethostname(), port
    return named["host"].strip("[]"), int(named["port"] or (443 if request.url.scheme == "https" else 80))


def host_port(host: str, port: int) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
