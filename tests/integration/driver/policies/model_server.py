"""An OpenAI-compatible model server that answers as it is told, and remembers what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from integration.driver.local_server import serving
from rollgym.common import jsonx
from rollgym.driver.policies import PolicySettings

KEY = "sk-S3NT1NEL-0123456789"


@dataclass(frozen=True)
class Answer:
    """One answer. `drop` closes the connection instead, `hang` never answers; `events` are streamed."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[Any] | None = None
    drop: bool = False
    hang: bool = False


@dataclass
class ModelServer:
    """Answers in turn from `answers`; the last one is repeated."""

    answers: list[Answer]
    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(jsonx.loads(await request.read()))
        self.paths.append(request.path)
        self.headers.append(request.headers)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if answer.hang:
            await asyncio.Event().wait()
        if answer.drop:
            assert request.transport is not None
            request.transport.close()
        if answer.events is not None:
            return await self._stream(request, answer.events)
        body = answer.body if isinstance(answer.body, bytes) else jsonx.dumps(answer.body)
        kind = "application/json" if not body.lstrip().startswith(b"<") else "text/html"
        return web.Response(body=body, status=answer.status, headers=answer.headers, content_type=kind)

    @staticmethod
    async def _stream(request: web.Request, events: Sequence[Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for event in events:
            data = event if isinstance(event, bytes) else jsonx.dumps(event)
            name = b"event: " + event["type"].encode() + b"\n" if isinstance(event, dict) and "type" in event else b""
            await response.write(name + b"data: " + data + b"\n\n")
        return response


@asynccontextmanager
async def model_server(*answers: Answer) -> AsyncIterator[ModelServer]:
    server = ModelServer(list(answers))
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/{path:.*}", server.handle)
    async with serving(app) as url:
        server.base_url = f"{url}/v1"
        yield server


def settings(server: ModelServer, kind: str, **fields: Any) -> PolicySettings:
    """Settings for a policy of this server that retries fast."""
    values = {"model": "m", "api_key": SecretStr(KEY), "backoff_s": 0.01, "max_backoff_s": 0.02, **fields}
    return PolicySettings(kind=kind, base_url=server.base_url, **values)
