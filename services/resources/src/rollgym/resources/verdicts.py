"""What a failure to open a session means: busy, which time heals, or wrong, which it does not. This is the one place.

busy    at-capacity error frames; timeouts, resets, broken pipes, ends of stream; WebSocket closes 1001, 1006, 1011,
        1012, 1013; httpx timeouts and read errors; HTTP 429, 502, 503, 504 at the upgrade; no descriptors or
        ports left on our own side
wrong   refused connections, unknown hosts, no route, TLS failures: `env_refused`; hosts unknown or out of reach that
        were there before, as when a network is cut, are busy to those who know it (`Verdict.out_of_reach`)
        other HTTP statuses, other closes, frames that are no OpenEnv, VALIDATION_ERROR or EXECUTION_ERROR on a
        reset, and whatever this table does not know: `env_protocol`
        frames past the limit: `payload_too_large`

Libraries wrap what happened, so the table is asked about an exception, then about its group's members, its cause and
its context, nearest first: the first that it knows decides. Among the members of a group, busy beats wrong.
"""

from __future__ import annotations

import email.utils
import errno
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    ProtocolError,
)

from rollgym.common.errors import EnvBusy, EnvError, EnvProtocolError, EnvRefused, PayloadTooLarge, RollgymError
from rollgym.resources.frames import SHOWN_CHARS, ErrorFrame

BUSY_CLOSES = frozenset({1001, 1006, 1011, 1012, 1013})
BUSY_STATUSES = frozenset({429, 502, 503, 504})
REFUSING_CLOSES = frozenset({1012, 1013})
TOO_BIG_CLOSE = 1009

BUSY_ERRNOS = frozenset(
    {
        errno.ETIMEDOUT,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.EADDRNOTAVAIL,
        errno.EAGAIN,
    }
)
NO_WAY_ERRNOS = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})
_FOLDED_ERRNO = re.compile(r"\[Errno (\d+)\]")


class FrameError(Exception):
    """An error frame where an observation was due. It stays inside this service: see `Verdict.error`."""

    def __init__(self, frame: ErrorFrame) -> None:
        super().__init__(f"the environment server answered {frame.code or 'an error'}: {frame.message}")
        self.frame = frame


@dataclass(frozen=True)
class Verdict:
    """What one failed attempt means.

    `refusal`: the server said that it takes no more for now, so that others need not ask. `retry_after_s`: the least
    wait it asked for. `max_sessions`: its limit, where it said so. `out_of_reach`: no machine of that name was found:
    wrong as an address, but to be waited for where it was right before.
    """

    busy: bool
    cause: str
    kind: type[RollgymError] = EnvBusy
    refusal: bool = False
    retry_after_s: float | None = None
    max_sessions: int | None = None
    out_of_reach: bool = False

    def error(self, **data: object) -> RollgymError:
        return self.kind(self.cause, **data)


def judge(error: BaseException) -> Verdict:
    """The verdict on a failed attempt to open a session."""
    for layer in _layers(error):
        verdicts = [verdict for verdict in map(_known, layer) if verdict is not None]
        if verdicts:
            return next((verdict for verdict in verdicts if verdict.busy), verdicts[0])
    return Verdict(False, _said(error), EnvProtocolError)


def _layers(error: BaseException) -> Iterator[list[BaseException]]:
    """The exception, then what it was made of or came from, one step further each time; never twice the same."""
    layer, seen = [error], {id(error)}
    while layer:
        yield layer
        following: list[BaseException] = []
        for each in layer:
            members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            for origin in (*members, each.__cause__, each.__context__):
                if origin is not None and id(origin) not in seen:
                    seen.add(id(origin))
                    following.append(origin)
        layer = following


def _known(error: BaseException) -> Verdict | None:
    """The table's row for this very exception, its origins left aside; None where it says nothing by itself."""
    if isinstance(error, FrameError):
        return _of_frame(error.frame)
    if isinstance(error, PayloadTooLarge | EnvError):
        return Verdict(isinstance(error, EnvBusy), error.message, type(error))
    if isinstance(error, ConnectionClosed):
        return _of_close(error)
    if isinstance(error, InvalidStatus):
        return _of_status(error.response.status_code, error.response.headers, error.response.body)
    if isinstance(error, httpx.HTTPStatusError):
        return _of_status(error.response.status_code, error.response.headers, error.response.content)
    if isinstance(error, httpx.TimeoutException | httpx.ReadError):
        return Verdict(True, _said(error))
    if isinstance(error, InvalidMessage):
        return None if error.__cause__ is not None else Verdict(False, _said(error), EnvProtocolError)
    if isinstance(error, InvalidHandshake | InvalidURI | ProtocolError):
        return Verdict(False, _said(error), EnvProtocolError)
    if isinstance(error, EOFError):
        return Verdict(True, _said(error))
    if isinstance(error, OSError):
        return _of_os_error(error)
    return None


def _of_frame(frame: ErrorFrame) -> Verdict:
    cause = f"the environment server answered {frame.code or 'an error'}: {frame.message}"
    if frame.at_capacity:
        return Verdict(True, cause, refusal=True, max_sessions=frame.max_sessions)
    return Verdict(False, cause, EnvProtocolError)


def close_code(error: ConnectionClosed) -> int:
    """The code that a connection ended with; 1006 where it ended without any."""
    if error.rcvd is not None:
        return error.rcvd.code
    if error.sent is not None and error.sent.code == TOO_BIG_CLOSE:
        return TOO_BIG_CLOSE
    return 1006


def _of_close(error: ConnectionClosed) -> Verdict:
    code = close_code(error)
    if code == TOO_BIG_CLOSE:
        return Verdict(False, f"a frame was larger than the limit ({error})", PayloadTooLarge)
    if code in BUSY_CLOSES:
        return Verdict(True, f"the connection closed with {code} ({error})", refusal=code in REFUSING_CLOSES)
    return Verdict(False, f"the connection closed with {code} before a session was open ({error})", EnvProtocolError)


def _of_status(status: int, headers: Mapping[str, str], body: bytes | bytearray | None) -> Verdict:
    text = bytes(body or b"")[:SHOWN_CHARS].decode("utf-8", "replace").strip()
    cause = f"the environment server answered HTTP {status}" + (f": {text}" if text else "")
    if status in BUSY_STATUSES:
        return Verdict(True, cause, refusal=True, retry_after_s=parse_retry_after(headers.get("Retry-After")))
    return Verdict(False, cause, EnvProtocolError)


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a count of seconds or an HTTP date; None where it says neither."""
    if value is None:
        return None
    value = value.strip()
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _of_os_error(error: OSError) -> Verdict:
    said = _said(error)
    if isinstance(error, ssl.SSLError):
        return Verdict(False, said, EnvRefused)
    if isinstance(error, socket.gaierror) or error.errno in NO_WAY_ERRNOS:
        return Verdict(False, said, EnvRefused, out_of_reach=True)
    if isinstance(error, TimeoutError) or error.errno in BUSY_ERRNOS:
        return Verdict(True, said)
    if isinstance(error, ConnectionResetError | BrokenPipeError | ConnectionAbortedError):
        return Verdict(True, said)
    if error.errno is None:
        # asyncio tells of several addresses in one OSError, whose text alone holds what each of them answered.
        folded = {int(number) for number in _FOLDED_ERRNO.findall(str(error))}
        return Verdict(bool(folded & BUSY_ERRNOS), said, EnvBusy if folded & BUSY_ERRNOS else EnvRefused)
    return Verdict(False, said, EnvRefused)


def _said(error: BaseException) -> str:
    text = str(error) or "no message"
    return f"{type(error).__name__}: {text}"[:SHOWN_CHARS]
