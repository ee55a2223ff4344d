"""The table of what opening a session can meet: busy or wrong, however the library wrapped it."""

import asyncio
import errno
import socket
import ssl

import httpx
import pytest
import websockets.exceptions
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidMessage, InvalidStatus
from websockets.frames import Close
from websockets.http11 import Response

from rollgym.common.errors import EnvBusy, EnvProtocolError, EnvRefused, PayloadTooLarge
from rollgym.resources.frames import ErrorFrame
from rollgym.resources.verdicts import FrameError, judge, parse_retry_after

BUSY, REFUSED, PROTOCOL, TOO_LARGE = EnvBusy, EnvRefused, EnvProtocolError, PayloadTooLarge


def closed(code: int | None, sent: int | None = None) -> Exception:
    kind = ConnectionClosedOK if code in (1000, 1001) else ConnectionClosedError
    received = Close(code, "") if code is not None else None
    ours = Close(sent, "") if sent is not None else None
    return kind(received, ours, rcvd_then_sent=None if received is None or ours is None else True)


def status(code: int, **headers: str) -> Exception:
    return InvalidStatus(Response(code, "", Headers(headers), b"try later"))


def frame(code: str, **counts: int) -> Exception:
    return FrameError(ErrorFrame(code, "said so", **counts))


def caused(outer: Exception, inner: BaseException) -> Exception:
    outer.__cause__ = inner
    return outer


def in_context(outer: Exception, inner: BaseException) -> Exception:
    outer.__context__, outer.__suppress_context__ = inner, True
    return outer


def folded(*errnos: int) -> OSError:
    """What asyncio raises where a name has several addresses."""
    told = ", ".join(f"[Errno {number}] Connect call failed ('::1', 9)" for number in errnos)
    return OSError(f"Multiple exceptions: {told}")


REQUEST = httpx.Request("GET", "http://env/schema")

TABLE = {
    "frame: at capacity": (frame("CAPACITY_REACHED", active_sessions=4, max_sessions=4), BUSY),
    "frame: validation error on reset": (frame("VALIDATION_ERROR"), PROTOCOL),
    "frame: execution error on reset": (frame("EXECUTION_ERROR"), PROTOCOL),
    "frame: factory error": (frame("FACTORY_ERROR"), PROTOCOL),
    "frame: no OpenEnv": (EnvProtocolError("no JSON"), PROTOCOL),
    "timeout": (TimeoutError(), BUSY),
    "timeout: asyncio's": (caused(TimeoutError("handshake"), TimeoutError()), BUSY),
    "timeout: errno": (OSError(errno.ETIMEDOUT, "timed out"), BUSY),
    "reset by peer": (ConnectionResetError(errno.ECONNRESET, "reset"), BUSY),
    "reset by peer, without errno": (ConnectionResetError(), BUSY),
    "broken pipe": (BrokenPipeError(), BUSY),
    "aborted": (ConnectionAbortedError(), BUSY),
    "end of stream": (EOFError(), BUSY),
    "end of stream, half a frame": (asyncio.IncompleteReadError(b"x", 2), BUSY),
    **{f"close {code}": (closed(code), BUSY) for code in (1001, 1006, 1011, 1012, 1013)},
    "close without a frame": (closed(None), BUSY),
    **{f"close {code}": (closed(code), PROTOCOL) for code in (1000, 1002, 1003, 1007, 1008)},
    "close 1009, theirs": (closed(1009), TOO_LARGE),
    "close 1009, ours": (closed(None, sent=1009), TOO_LARGE),
    **{f"HTTP {code}": (status(code), BUSY) for code in (429, 502, 503, 504)},
    **{f"HTTP {code}": (status(code), PROTOCOL) for code in (400, 401, 403, 404, 426, 500, 501)},
    "httpx: connect timeout": (httpx.ConnectTimeout("slow"), BUSY),
    "httpx: read timeout": (httpx.ReadTimeout("slow"), BUSY),
    "httpx: pool timeout": (httpx.PoolTimeout("full"), BUSY),
    "httpx: read error": (httpx.ReadError("gone"), BUSY),
    "httpx: HTTP 503": (httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(503)), BUSY),
    "httpx: HTTP 404": (httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(404)), PROTOCOL),
    "httpx: refused": (caused(httpx.ConnectError("no"), ConnectionRefusedError(errno.ECONNREFUSED, "no")), REFUSED),
    "answer cut off": (caused(InvalidMessage("no response"), EOFError("ends")), BUSY),
    "answer is no HTTP": (caused(InvalidMessage("no response"), ValueError("garbage")), PROTOCOL),
    "answer is no HTTP, no cause": (InvalidMessage("no response"), PROTOCOL),
    "refused": (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), REFUSED),
    "refused, without errno": (ConnectionRefusedError(), REFUSED),
    "refused at every address, folded": (folded(errno.ECONNREFUSED, errno.ECONNREFUSED), REFUSED),
    "refused at one, slow at the other, folded": (folded(errno.ECONNREFUSED, errno.ETIMEDOUT), BUSY),
    "refused at every address, grouped": (
        ExceptionGroup(
            "create_connection failed", [ConnectionRefusedError(111, "a"), ConnectionRefusedError(111, "b")]
        ),
        REFUSED,
    ),
    "refused at one, slow at the other, grouped": (
        ExceptionGroup("create_connection failed", [ConnectionRefusedError(111, "a"), TimeoutError()]),
        BUSY,
    ),
    "unknown host": (socket.gaierror(socket.EAI_NONAME, "unknown"), REFUSED),
    "no route": (OSError(errno.EHOSTUNREACH, "no route"), REFUSED),
    "TLS": (ssl.SSLError(1, "wrong version"), REFUSED),
    "TLS certificate": (ssl.SSLCertVerificationError(1, "self-signed"), REFUSED),
    "our own files are used up": (OSError(errno.EMFILE, "too many open files"), BUSY),
    "wrapped: timeout as cause": (caused(RuntimeError("wrapped"), TimeoutError()), BUSY),
    "wrapped: timeout as context, hidden": (in_context(RuntimeError("wrapped"), TimeoutError()), BUSY),
    "wrapped: twice": (caused(RuntimeError("a"), in_context(ValueError("b"), ConnectionResetError())), BUSY),
    "wrapped: in a group in a cause": (
        caused(RuntimeError("a"), ExceptionGroup("g", [ExceptionGroup("h", [EOFError()])])),
        BUSY,
    ),
    "wrapped: refused as cause": (caused(RuntimeError("wrapped"), ConnectionRefusedError(111, "no")), REFUSED),
    "nearest decides: refused after a timeout": (
        in_context(ConnectionRefusedError(111, "no"), TimeoutError()),
        REFUSED,
    ),
    "nearest decides: 404 after a reset": (in_context(status(404), ConnectionResetError()), PROTOCOL),
    "unknown to the table": (ValueError("a bug"), PROTOCOL),
}


@pytest.mark.parametrize("name", TABLE)
def test_verdict(name: str) -> None:
    error, expected = TABLE[name]
    verdict = judge(error)
    assert verdict.kind is expected
    assert verdict.busy is (expected is BUSY)
    assert verdict.cause


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert judge(one).busy is False


def test_every_error_of_websockets_has_a_verdict_of_its_own_or_a_cause() -> None:
    """A new version's new error must be looked at: it would count as `env_protocol` without anybody having said so."""
    known = {
        "ConnectionClosed", "ConnectionClosedOK", "ConnectionClosedError", "ConcurrencyError", "DuplicateParameter",
        "HeaderLineTooLong", "InvalidHandshake", "InvalidHeader", "InvalidHeaderFormat", "InvalidHeaderValue",
        "InvalidMessage", "InvalidMethod", "InvalidOrigin", "InvalidParameterName", "InvalidParameterValue",
        "InvalidProtocol", "InvalidProxy", "InvalidProxyMessage", "InvalidProxyStatus", "InvalidState", "InvalidStatus",
        "InvalidURI", "InvalidUpgrade", "NegotiationError", "PayloadTooBig", "ProtocolError", "ProxyError",
        "RequestLineTooLong", "SecurityError", "StatusLineTooLong", "TooManyFragments", "TooManyHeaders",
        "WebSocketException",
    }  # fmt: skip
    assert set(websockets.exceptions.__all__) <= known


@pytest.mark.parametrize(
    ("error", "retry_after_s", "refusal", "max_sessions"),
    [
        pytest.param(status(503, **{"Retry-After": "7"}), 7.0, True, None, id="HTTP 503 with Retry-After"),
        pytest.param(status(429), None, True, None, id="HTTP 429 without"),
        pytest.param(frame("CAPACITY_REACHED", max_sessions=64), None, True, 64, id="capacity frame"),
        pytest.param(closed(1013), None, True, None, id="close 1013: try again later"),
        pytest.param(TimeoutError(), None, False, None, id="a timeout says nothing of capacity"),
    ],
)
def test_what_a_busy_verdict_teaches(
    error: Exception, retry_after_s: float | None, refusal: bool, max_sessions: int | None
) -> None:
    verdict = judge(error)
    assert (verdict.retry_after_s, verdict.refusal, verdict.max_sessions) == (retry_after_s, refusal, max_sessions)


@pytest.mark.parametrize(
    ("value", "seconds"), [("5", 5.0), (" 0 ", 0.0), ("soon", None), ("", None), (None, None), ("-3", None)]
)
def test_retry_after_in_seconds(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_retry_after_as_a_date_in_the_past_means_now() -> None:
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_an_http_error_tells_what_the_server_said() -> None:
    assert "HTTP 503: try later" in judge(status(503)).cause
