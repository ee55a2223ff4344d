"""The commands under test as processes, and what a client or an operator asks them."""

import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from plain_http import PLAIN
from processes import RunningCommand, running, running_sync

ROW: dict[str, Any] = {"responses_create_params": {"input": []}}
BUNDLE = ("gym-env-bundle", "serve", "--admin", "--port")
RESOURCES = ("gym-resources", "serve", "--port", "0")


def bundle(*flags: str, port: int = 0) -> AbstractAsyncContextManager[RunningCommand]:
    """An env-bundle with its admin routes."""
    return running(*BUNDLE, str(port), *flags)


def resources_for(url: str, *flags: str) -> AbstractAsyncContextManager[RunningCommand]:
    """A resources server for the environment `echo` of the env-bundle at `url`."""
    return running(*RESOURCES, "--env", f"echo={url}/echo", *flags)


@dataclass(frozen=True)
class Pair:
    """An env-bundle, and a resources server for its environment `echo`."""

    bundle: RunningCommand
    resources: RunningCommand


@contextmanager
def running_pair(*flags: str) -> Iterator[Pair]:
    """Both of them, for all tests of a module: processes take long to start. `flags`: of the resources server."""
    with (
        running_sync(*BUNDLE, "0") as env,
        running_sync(*RESOURCES, "--env", f"echo={env.url}/echo", *flags) as server,
    ):
        yield Pair(env, server)


def client_of(command: RunningCommand) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    return httpx.AsyncClient(base_url=command.url, timeout=30, limits=limits, trust_env=False, verify=PLAIN)


async def seed(client: httpx.AsyncClient) -> tuple[int, dict[str, str]]:
    """The seed's status, and the headers that name its session."""
    answer = await client.post("/seed_session", json=ROW)
    cookie = answer.headers.get("set-cookie", "").split(";")[0]
    client.cookies.clear()
    return answer.status_code, {"cookie": cookie}


async def stats_of(bundle_url: str) -> dict[str, Any]:
    """An env-bundle's own counts: `active` slots, `opens`, `steps`, …"""
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
        found: dict[str, Any] = (await client.get(f"{bundle_url}/admin/stats")).json()
        return found


async def all_slots_free(bundle_url: str) -> bool:
    return not (await stats_of(bundle_url))["active"]


async def nothing_held(client: httpx.AsyncClient) -> bool:
    """Whether a resources server has no session, slot, handshake, waiter or close left."""
    listing = (await client.get("/sessions")).json()
    counts = [gate[name] for gate in listing["envs"].values() for name in ("slots_held", "handshakes", "waiting")]
    return not listing["sessions"] and not listing["closing"] and not any(counts)


def log_lines(command: RunningCommand, event: str) -> list[dict[str, Any]]:
    """The log lines of one event."""
    return [line for line in map(json.loads, command.log().splitlines()) if line["event"] == event]
