"""What agent servers themselves make of their rollouts: POST /aggregate_metrics, asked for, never waited for long.

An agent server may compute metrics that only it knows. Hanging, failing or answering nonsense costs at most the timeout
and is a remark; nothing that was measured depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import RollgymError
from rollgym.common.surrogates import decode_masking, unmask_lone_surrogates
from rollgym.driver.artifacts.lines import read_lines
from rollgym.driver.evals.owed import UNKNOWN_AGENT
from rollgym.driver.evals.shards import HEAVY
from rollgym.driver.http_client import excerpt, open_client_session, read_bounded
from rollgym.driver.survey import outline

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_NOT_OFFERED = (404, 405)
_KEPT_OF_RESPONSE = ("usage", "incomplete_details")

_RawObject = dict[str, msgspec.Raw]
_object_decoder = msgspec.json.Decoder(_RawObject)


class _Ref(msgspec.Struct, gc=False):
    name: str = UNKNOWN_AGENT


@dataclass
class AgentAnswers:
    """Answers by agent name; `remarks` name every agent that was to give one and did not, and why."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


async def ask_agents(urls: Mapping[str, str], results: Path, timeout_s: float = TIMEOUT_S) -> AgentAnswers:
    """Send each agent server the rows of its agent, without their payloads. Never raises for what a server does."""
    found = AgentAnswers()
    if not urls:
        return found
    async with open_client_session() as http, asyncio.TaskGroup() as group:
        for name, url in urls.items():
            group.create_task(_ask(http, name, url, results, timeout_s, found), name=f"aggregate-{name}")
    return found


async def _ask(
    http: aiohttp.ClientSession, name: str, url: str, results: Path, timeout_s: float, found: AgentAnswers
) -> None:
    problem: str
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _post(http, name, f"{url}/aggregate_metrics", results)
        if answer is not None:
            found.answers[name] = answer
        return
    except TimeoutError:
        problem = f"no answer within {timeout_s:g} s"
    except RollgymError as error:
        problem = error.message
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = str(error) or type(error).__name__
    found.remarks.append(f"{name}: POST {url}/aggregate_metrics: {problem}; the aggregate is ours alone")


async def _post(http: aiohttp.ClientSession, name: str, url: str, results: Path) -> dict[str, Any] | None:
    """The server's answer; None where it has no such route, which is its right."""
    headers = {"Content-Type": "application/json"}
    async with http.post(url, data=_body(name, results), headers=headers) as response:
        body = await read_bounded(response, MAX_ANSWER_BYTES)
        if response.status in _NOT_OFFERED:
            return None
        if response.status != 200:
            raise ValueError(f"answered {response.status}: {excerpt(body)}")
    answer = jsonx.loads(body)
    if not isinstance(answer, dict) or not isinstance(answer.get("agent_metrics", {}), dict):
        raise ValueError(f"answered no aggregate: {excerpt(body)}")
    return answer


async def _body(name: str, results: Path) -> AsyncIterator[bytes]:
    """The request's body in pieces: bounded memory, and no row read on the event loop."""
    chunks = _chunks(name, results)
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk


def _chunks(name: str, results: Path) -> Iterator[bytes]:
    buffer = bytearray(b'{"verify_responses":[')
    separator = b""
    for line in read_lines(results):
        row = _stripped(name, line.content)
        if row is None:
            continue
        buffer += separator + row
        separator = b","
        if len(buffer) >= _CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer + b"]}")


def _stripped(name: str, line: bytes) -> bytes | None:
    """A row of the agent `name` without what is heavy; None for other agents' rows."""
    light = outline(line, HEAVY, _KEPT_OF_RESPONSE)
    try:
        fields, text = decode_masking(line if light is None else light, _object_decoder)
        agent = msgspec.json.decode(fields.get("agent_ref", b"{}"), type=_Ref)
        if agent.name != name:
            return None
        heavy = HEAVY & fields.keys()
        if light is not None and not heavy:
            return light
        for field_name in heavy:
            del fields[field_name]
        if "response" in fields:
            response = _object_decoder.decode(fields.pop("response"))
            kept = {key: response[key] for key in _KEPT_OF_RESPONSE if key in response}
            fields["response"] = msgspec.Raw(msgspec.json.encode(kept))
    except msgspec.DecodeError:
        return None
    encoded = msgspec.json.encode(fields)
    return encoded if text is line else unmask_lone_surrogates(encoded)
