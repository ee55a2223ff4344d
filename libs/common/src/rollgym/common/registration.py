"""Tells the head that this process is there: one idempotent message, sent again and again until the stop."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, Field

from rollgym.common.logs import get_logger
from rollgym.common.tls import tls_context

HEARTBEAT_S = 5.0
TTL_S = 15.0

log = get_logger(__name__)


class ServerRegistration(BaseModel):
    """The body of ``PUT /v1/servers/{instance_id}``: register and heartbeat in one, so a new head learns it too."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=200, description="What users call it; replicas share a name")
    server_type: str = Field(min_length=1, max_length=64, description="resources_servers, responses_api_agents, …")
    implementation: str = Field(
        "rollgym", min_length=1, max_length=200, description="The server's type in NeMo Gym's terms"
    )
    host: str = Field(min_length=1, max_length=255, description="Where others reach it")
    port: int = Field(ge=1, le=65535)
    url: str = Field(pattern=r"^https?://", max_length=2000)
    pid: int | None = Field(None, description="Process id on its own host")
    started_at: float = Field(description="When it started, seconds since the epoch")
    ttl_s: float = Field(TTL_S, gt=0, le=3600, description="Silence after which it counts as not responding")
    metadata: dict[str, Any] = Field(default_factory=dict, description="What it offers and its load; no secrets")


def new_instance_id(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}"


def advertised_host(bound_host: str, configured: str | None) -> str:
    """The host to tell others: the configured one; for a bind of all interfaces this machine's name; else the bound."""
    if configured:
        return configured
    return socket.gethostname() if bound_host in ("0.0.0.0", "::", "") else bound_host


@contextlib.asynccontextmanager
async def registered(
    head_url: str,
    instance_id: str,
    registration: Callable[[], ServerRegistration],
    *,
    token: str | None = None,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncIterator[None]:
    """While the block runs, keep this process registered; deregister at its end (best effort, bounded).

    A head that does not answer is no error here: it is asked again, and said once in the log.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{head_url.rstrip('/')}/v1/servers/{instance_id}"
    verify = tls_context(url)
    async with httpx.AsyncClient(headers=headers, timeout=5.0, trust_env=False, verify=verify) as client:
        task = asyncio.create_task(_heartbeat(client, url, registration, heartbeat_s), name="heartbeat")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            with contextlib.suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await client.delete(url)


async def _heartbeat(
    client: httpx.AsyncClient, url: str, registration: Callable[[], ServerRegistration], heartbeat_s: float
) -> None:
    said = ""
    while True:
        state = await _tell(client, url, registration())
        if state != said:
            if state == "registered":
                log.info("registered with the head", url=url)
            else:
                log.warning("cannot register with the head; asking again", url=url, problem=state)
            said = state
        await asyncio.sleep(heartbeat_s if state == "registered" else min(1.0, heartbeat_s))


async def _tell(client: httpx.AsyncClient, url: str, registration: ServerRegistration) -> str:
    """Send one heartbeat; returns "registered", or what went wrong."""
    try:
        answer = await client.put(url, json=registration.model_dump())
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    return "registered" if answer.is_success else f"the head answered {answer.status_code}: {answer.text[:200]}"
