"""`gym status` and `gym env list`: what a head knows, as tables or as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import httpx
from rich import box
from rich.console import Console
from rich.table import Table

from rollgym.common.errors import HeadError
from rollgym.driver.fleet import HeadClient
from rollgym.driver.progress import seconds

SHOWN_RUNS = 10
PIPE_WIDTH = 200


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
    for name, environment in environments.items():
        environment["tools"] = await _tools(environment["servers"], name, token)
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


async def _tools(urls: list[str], env: str, token: str | None) -> list[str] | None:
    """Names of an environment's tools, from the first server that tells; None where none does."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(timeout=10.0, trust_env=False, headers=headers) as http:
        for url in urls:
            try:
                answer = await http.get(f"{url}/tools", params={"env": env})
                return [tool["name"] for tool in answer.raise_for_status().json()["tools"]]
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                continue
    return None


def _table(title: str, name: str, *columns: str) -> Table:
    """A table whose first column, the name to copy, is never cut."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
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
