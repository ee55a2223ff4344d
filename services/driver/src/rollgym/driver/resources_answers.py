"""What the answers of the resources API mean: a broken connection, a refusal, a seed, the end of an episode.

Pure but for the context manager that names aiohttp's errors. Who asked, and what to do about it, is
`resources_client`'s business.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
from multidict import CIMultiDictProxy

from rollgym.common import jsonx
from rollgym.common.errors import (
    EnvBusy,
    EnvLost,
    EnvProtocolError,
    EnvRefused,
    RollgymError,
    SessionReclaimed,
    SessionUnknown,
    error_from_wire,
)
from rollgym.common.redaction import redact_text
from rollgym.driver.encoded import raw_bytes, struct_of
from rollgym.driver.http_client import descriptors_error, excerpt, out_of_descriptors
from rollgym.driver.policies.protocol import SeedAnswer

MASKED_HEADER = "X-Rollgym-Masked"
DONE_HEADER = "X-Rollgym-Done"


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer, read whole."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


@contextmanager
def connection_errors(url: str, broken: type[RollgymError]) -> Iterator[None]:
    """Give aiohttp's errors our names: never connected, cut off midway (`broken`), or no HTTP at all.

    A TimeoutError inside is aiohttp's own (our bounds cancel, they do not raise here).
    """
    try:
        yield
    except RollgymError:
        raise
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        shown = redact_text(url)
        if out_of_descriptors(error):
            raise descriptors_error(shown) from error
        text = redact_text(str(error)) or "the server closed the connection"
        cause = type(error).__name__
        if isinstance(error, aiohttp.InvalidURL):
            raise EnvRefused(f"{shown} is no URL to call", cause=cause, terminal=True) from error
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            raise EnvRefused(f"{shown} cannot be reached: {text}", cause=cause) from error
        if isinstance(error, aiohttp.ClientResponseError):
            raise EnvProtocolError(f"{shown} does not answer in HTTP: {text}", cause=cause) from error
        raise broken(f"the call of {shown} was cut off: {text}", cause=cause) from error


def nobody_listens(error: EnvRefused) -> bool:
    """Whether the machine itself said that no process is there, and not just that it is out of reach."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED


def refusal(reply: Reply, base_url: str) -> RollgymError | None:
    """The error that the server sent in the wire form; None where it sent none that we know."""
    try:
        wire: Any = jsonx.loads(reply.body)
    except ValueError:
        wire = None
    error = error_from_wire(wire, status=reply.status)
    kind = reply.headers.get(MASKED_HEADER)
    if kind is None:
        return error
    if error is None:
        error = EnvLost(said(reply, base_url), http_status=reply.status)
    error.data.update(masked=True, failure_kind=kind)
    return error


def unknown_refusal(reply: Reply, url: str) -> RollgymError:
    """The error for an answer that says nothing in our wire form: all there is to judge by is its status."""
    kind: type[RollgymError] = EnvProtocolError
    if reply.status in (429, 503):
        kind = EnvBusy
    elif reply.status in (502, 504):
        kind = EnvRefused
    elif reply.status in (401, 403, 421):
        kind = SessionUnknown
    elif reply.status == 410:
        kind = SessionReclaimed
    elif reply.status >= 500:
        kind = EnvLost
    return kind(said(reply, url), http_status=reply.status)


def said(reply: Reply, url: str) -> str:
    text = redact_text(excerpt(reply.body))
    return f"{redact_text(url)} answered {reply.status}" + (f": {text}" if text else "")


class _Seeded(msgspec.Struct, gc=False):
    session_id: str | None = None
    observation: msgspec.Raw = msgspec.Raw(b"null")
    tools: list[msgspec.Raw] | None = None
    env: str | None = None


_seeded_decoder = msgspec.json.Decoder(_Seeded)


def seed_answer(reply: Reply, base_url: str) -> SeedAnswer:
    """What /seed_session told; servers other than ours may answer with nothing but the cookie."""
    if not reply.body.strip():
        return SeedAnswer()
    try:
        seeded = struct_of(reply.body, _seeded_decoder)
        observation = jsonx.loads(raw_bytes(seeded.observation))
    except ValueError as error:
        raise EnvProtocolError(
            f"{redact_text(base_url)}/seed_session gave no seed answer ({error}): {redact_text(excerpt(reply.body))}"
        ) from error
    tools = tuple(raw_bytes(tool) for tool in seeded.tools or ())
    return SeedAnswer(session_id=seeded.session_id, observation=observation, tools=tools, env=seeded.env)


class _DoneMark(msgspec.Struct, gc=False):
    done: bool = False


_done_decoder = msgspec.json.Decoder(_DoneMark)


def says_done(reply: Reply) -> bool:
    header = reply.headers.get(DONE_HEADER)
    if header is not None:
        return header.strip().lower() in ("true", "1")
    if b'"done"' not in reply.body:
        return False
    try:
        return struct_of(reply.body, _done_decoder).done
    except ValueError:
        return False
