"""The servers that a run uses: learned from the head, refreshed while it runs, chosen by least load.

Speaks to Rollgym's head (`/v1/servers`) and, where that is unknown, to NeMo Gym's (`/server_instances`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from rollgym.common.errors import AgentRequestFailed, EnvRefused, HeadError
from rollgym.common.logs import get_logger
from rollgym.common.suggestions import did_you_mean
from rollgym.common.tls import tls_context

REFRESH_S = 3.0
AVOIDED_FOR_S = 5.0
TIMEOUT_S = 10.0

log = get_logger(__name__)


@dataclass
class Server:
    """One live server. `in_flight` counts this driver's rollouts on it, `reported_load` what it told the head.

    A rollout runs on it within `with server:`, which counts it, and notices a server that could not be reached.
    """

    instance_id: str
    name: str
    server_type: str
    url: str
    envs: frozenset[str] | None = None
    reported_load: int = 0
    responding: bool = True
    in_flight: int = 0
    avoided_until: float = 0.0

    def __enter__(self) -> Self:
        self.in_flight += 1
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.in_flight -= 1
        nobody_answered = isinstance(error, EnvRefused | AgentRequestFailed) and not (
            error.data.keys() & {"http_status", "status"}
        )
        if nobody_answered:
            self.cannot_be_reached()

    @property
    def load(self) -> tuple[bool, int, int]:
        avoided = not self.responding or time.monotonic() < self.avoided_until
        return (avoided, self.in_flight, self.reported_load)

    def cannot_be_reached(self) -> None:
        """Prefer its replicas for a while: what fails at once is the least loaded, and would take every rollout."""
        self.avoided_until = time.monotonic() + AVOIDED_FOR_S


class HeadUnreachable(HeadError):
    """Nothing answers at the head's URL; it may be starting."""


class HeadClient:
    """Control calls to the head. Every failure is a HeadError that names the URL and what came instead."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(
            headers=headers, timeout=TIMEOUT_S, trust_env=False, verify=tls_context(self.url)
        )

    async def __aenter__(self) -> HeadClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, path: str) -> Any:
        """A JSON answer; None where the head has no such route."""
        answer = await self._request("GET", path)
        if answer.status_code == 404:
            return None
        return self._json(answer)

    async def put(self, path: str, body: Any) -> None:
        answer = await self._request("PUT", path, json=body)
        if not answer.is_success:
            raise HeadError(f"the head at {self.url} answered {answer.status_code} to PUT {path}: {answer.text[:200]}")

    async def delete(self, path: str) -> None:
        await self._request("DELETE", path)

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return await self._http.request(method, self.url + path, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise HeadUnreachable(f"the head at {self.url} does not answer: {reason}", url=self.url) from error

    def _json(self, answer: httpx.Response) -> Any:
        if answer.status_code == 401:
            raise HeadError(f"the head at {self.url} asks for a token: set `token`", url=self.url)
        try:
            if answer.is_success:
                return answer.json()
        except ValueError:
            pass
        kind = answer.headers.get("content-type", "no content type")
        raise HeadError(
            f"{self.url} does not answer as a head: {answer.status_code}, {kind}: {answer.text[:80]!r}", url=self.url
        )


@dataclass
class Fleet:
    """Live servers by kind. `refreshing` keeps it current; a head that is away leaves it as it was."""

    head: HeadClient
    servers: dict[str, Server] = field(default_factory=dict)
    head_keeps_runs: bool = True
    """False where the head is NeMo Gym's, which takes no registrations and no run history."""

    async def refresh(self) -> None:
        """Ask the head. Raises HeadError."""
        listing = await self.head.get("/v1/servers")
        records = listing["servers"] if isinstance(listing, dict) and "servers" in listing else None
        self.head_keeps_runs = records is not None
        if records is None:
            records = await self.head.get("/server_instances")
        if not isinstance(records, list):
            raise HeadError(f"{self.head.url} does not answer as a head: it lists no servers", url=self.head.url)
        fresh = {server.instance_id: server for server in map(_server, records) if server is not None}
        for instance_id, server in fresh.items():
            known = self.servers.get(instance_id)
            if known is not None:
                server.in_flight, server.avoided_until = known.in_flight, known.avoided_until
                known.__dict__.update(server.__dict__)
        self.servers = {instance_id: self.servers.get(instance_id, server) for instance_id, server in fresh.items()}

    @contextlib.asynccontextmanager
    async def refreshing(self, interval_s: float = REFRESH_S) -> AsyncIterator[None]:
        task = asyncio.create_task(self._keep_fresh(interval_s), name="fleet-refresh")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _keep_fresh(self, interval_s: float) -> None:
        said = ""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.refresh()
                said = ""
            except HeadError as error:
                if error.message != said:
                    log.warning("the servers are those last known", problem=error.message)
                said = error.message

    def resources(self) -> list[Server]:
        return [server for server in self.servers.values() if server.server_type == "resources_servers"]

    def envs(self) -> frozenset[str] | None:
        """Names of all environments that some server plays; None where a server does not tell."""
        known: set[str] = set()
        for server in self.resources():
            if server.envs is None:
                return None
            known |= server.envs
        return frozenset(known)

    def agent(self, name: str) -> Server | None:
        """The least loaded agent server of this name, None where there is none."""
        named = [s for s in self.servers.values() if s.server_type == "responses_api_agents" and s.name == name]
        return min(named, key=lambda server: server.load, default=None)

    def resources_for(self, env: str | None) -> Server:
        """The least loaded server that plays `env`. Raises EnvRefused where none does."""
        servers = self.resources()
        playing = [each for each in servers if env is None or each.envs is None or env in each.envs]
        if playing:
            return min(playing, key=lambda server: server.load)
        if not servers:
            raise EnvRefused(f"no resources server is registered with the head at {self.head.url}")
        known = sorted(self.envs() or ())
        raise EnvRefused(f"no resources server plays {env!r}{did_you_mean(env or '', known)}", env=env, known=known)


def _server(record: Any) -> Server | None:
    """A server from either head's listing; None for what is no server, or is gone."""
    if not isinstance(record, dict) or record.get("status") == "gone":
        return None
    name, url = record.get("name"), record.get("url")
    if not isinstance(name, str) or not isinstance(url, str):
        return None
    given = record.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    envs = metadata.get("envs")
    load = [metadata.get(name) for name in ("sessions_open", "sessions_waiting")]
    return Server(
        instance_id=str(record.get("instance_id") or f"{name}@{url}"),
        name=name,
        server_type=str(record.get("server_type")),
        url=url.rstrip("/"),
        envs=frozenset(map(str, envs)) if isinstance(envs, list) else None,
        reported_load=sum(count for count in load if isinstance(count, int)),
        responding=record.get("status") not in ("not_responding", "error"),
    )
