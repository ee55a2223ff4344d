"""The driver as client of agent servers: one POST of a row to `/run`, its answer as bytes.

A `/run` is sent once. Whatever goes wrong is a failed attempt, and whether another can help is said with it.
"""

from __future__ import annotations

import aiohttp

from rollgym.common import jsonx
from rollgym.common.errors import AgentRequestFailed
from rollgym.driver.http_client import (
    MAX_ANSWER_BYTES,
    descriptors_error,
    excerpt,
    out_of_descriptors,
    read_bounded,
)
from rollgym.driver.owed_row import RowBody
from rollgym.driver.payload_memory import Reservation

_RETRYABLE_STATUSES = frozenset({408, 425, 429})


async def post_run(
    http: aiohttp.ClientSession,
    url: str,
    row: RowBody,
    memory: Reservation,
    limit_bytes: int = MAX_ANSWER_BYTES,
) -> bytes:
    """Send a row to the agent server at `url`; returns the body of its answer, read once `memory` has room for it.

    Raises AgentRequestFailed (`terminal` where the answer was a 4xx that a repeat gets again), PayloadTooLarge for an
    answer over `limit_bytes`. Cancellation closes the connection, which an agent server can notice.
    """
    try:
        async with http.post(f"{url}/run", data=row, allow_redirects=False) as response:
            await memory.take(response.content_length)
            body = await read_bounded(response, limit_bytes, "the agent's answer")
    except aiohttp.ClientError as error:
        if out_of_descriptors(error):
            raise descriptors_error(url) from error
        raise AgentRequestFailed(f"{url}/run: {_what_happened(error)}", url=url) from error
    except OSError as error:
        if out_of_descriptors(error):
            raise descriptors_error(url) from error
        raise AgentRequestFailed(f"{url}/run: {error}", url=url) from error
    if response.status < 300:
        return body
    final = 300 <= response.status < 500 and response.status not in _RETRYABLE_STATUSES
    raise AgentRequestFailed(
        f"the agent answered {response.status}: {_detail(body)}", status=response.status, terminal=final
    )


def _what_happened(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    return str(error) or type(error).__name__


def _detail(body: bytes) -> str:
    """The text that an error answer carries: its `message` or `detail` where it is such JSON, else its start."""
    try:
        content = jsonx.loads(body)
    except ValueError:
        content = None
    if isinstance(content, dict):
        said = content.get("message") or content.get("detail")
        if isinstance(said, str):
            return said
    return excerpt(body) or "(empty body)"
