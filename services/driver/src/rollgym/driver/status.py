"""`gym status` and `gym env list`: what a head knows, as tables or as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Collection
from typing import Any

import httpx
from rich import box
from rich.console import Console
from rich.table import Table

from rollgym.common.errors import HeadError
from rollgym.common.tls import tls_context
from rollgym.driver.fleet import HeadClient
from rollgym.driver.progress import seconds
from rollgym.driver.text_tables import TitledTable

SHOWN_RUNS = 10
PIPE_WIDTH = 200
TOOLS_TIMEOUT_S = 10.0


async def show_status(head_url: str, token: str | None, *, as_json: bool) -> int:
    """Print servers and the latest runs. Raises HeadError where there is no head."""
    async with HeadClient(head_url, token) as head:
        servers = await _listing(head, "/v1/servers", "servers")
        runs = await _listing(head, f"/v1/runs?limit={SHOWN_RUNS}", "runs")
    if as_json:
        print(json.dumps({"servers": servers, "runs": runs}, indent=2))
        return 0
    shown = _console()
    shown.print(_servers_table(servers))
    shown.print(_runs_table(runs))
    return 0


async def show_environments(head_url: str, token: str | None, *, as_json: bool) -> int:
    """Print every environment with the servers that play it and its tools. Raises HeadError where there is no head."""
    async with HeadClient(head_url, token) as head:
        servers = await _listing(head, "/v1/servers", "servers")
    playing = [each for each in servers if each["server_type"] == "resources_servers" and each["status"] != "gone"]
    environments: dict[str, dict[str, Any]] = {}
    for server in playing:
        for name in server.get("metadata", {}).get("envs", []):
            environments.setdefault(name, {"servers": [], "tools": None})["servers"].append(server["url"])
    told = await _tools_by_server({url for each in environments.values() for url in each["servers"]}, token)
    for name, environment in environments.items():
        environment["tools"] = next((told[url][name] for url in environment["servers"] if name in told[url]), None)
    if as_json:
        print(json.dumps(environments, indent=2))
        return 0
    table = Table("environment", "replicas", "tools", box=box.SIMPLE_HEAD)
    for name, environment in sorted(environments.items()):
        tools = "–" if environment["tools"] is None else ", ".join(environment["tools"])
        table.add_row(name, str(len(environment["servers"])), tools)
    if not environments:
        print(f"gym: no environment: no resources server is up at {head_url}", file=sys.stderr)
        return 1
    _console().print(table)
    return 0


def _console() -> Console:
    """For a terminal as wide as that is; for a file or a pipe wide enough that nothing is cut off."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


async def _listing(head: HeadClient, path: str, name: str) -> list[dict[str, Any]]:
    answer = await head.get(path)
    if not isinstance(answer, dict) or not isinstance(answer.get(name), list):
        raise HeadError(f"{head.url} does not answer as Rollgym's head")
    found: list[dict[str, Any]] = answer[name]
    return found


async def _tools_by_server(urls: Collection[str], token: str | None) -> dict[str, dict[str, list[str]]]:
    """For each resources server, the names of the tools of each environment that it can tell of."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    verify = tls_context(*urls)
    async with httpx.AsyncClient(timeout=TOOLS_TIMEOUT_S, trust_env=False, headers=headers, verify=verify) as http:
        found = await asyncio.gather(*(_tools(http, url) for url in urls))
    return dict(zip(urls, found, strict=True))


async def _tools(http: httpx.AsyncClient, url: str) -> dict[str, list[str]]:
    try:
        envs = (await http.get(f"{url}/tools")).raise_for_status().json()["envs"]
        return {name: [tool["name"] for tool in env["tools"]] for name, env in envs.items() if "tools" in env}
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # a server that is down, or of another make: its environments are listed without their tools


def _table(title: str, name: str, *columns: str) -> Table:
    """A table whose first column, the name to copy, is never cut."""
    table = TitledTable(title)
    table.add_column(name, no_wrap=True, overflow="fold")
    for column in columns:
        table.add_column(column)
    return table


def _servers_table(servers: list[dict[str, Any]]) -> Table:
    table = _table("Servers", "URL", "server", "type", "status", "heard of")
    for server in servers:
        if server["server_type"] == "driver" and server["status"] == "gone":
            continue  # a driver that has ended: its run is told of below
        age = server.get("age_s")
        heard = "–" if age is None else f"{seconds(age)} ago"
        table.add_row(server["url"], server["name"], server["server_type"], server["status"], heard)
    return table


def _runs_table(runs: list[dict[str, Any]]) -> Table:
    table = _table(f"Latest {SHOWN_RUNS} runs", "run", "state", "scored / owed", "reward (mean over scored)", "started")
    for run in runs:
        mean, scored, owed = run.get("reward_mean"), run.get("scored"), run.get("owed")
        table.add_row(
            run["run_id"],
            run["state"],
            f"{'–' if scored is None else scored} / {'–' if owed is None else owed}",
            "–" if mean is None else f"{mean:.4f}",
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["started_at"])),
        )
    return table
