"""`gym status` and `gym env list` against running servers: what they name is what is there."""

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from aiohttp import web

from integration.driver.runs import gym
from integration.driver.servers import ENVIRONMENTS, Stack
from integration.driver.stub_agent import serving_app
from rollgym.common.registration import ServerRegistration

TOOLS = {"gridsim": {"get_state", "get_forecast", "dispatch"}, "wordle": {"step"}, "echo": {"step"}}


def test_status_names_every_server(stack: Stack) -> None:
    ended = gym("status", "--head", stack.head.url)
    assert ended.code == 0
    for each in (stack.head, stack.bundle, stack.resources):
        (line,) = [line for line in ended.out.splitlines() if line.split()[:1] == [each.url]]
        assert " up " in line


def test_env_list_names_every_environments_tools(stack: Stack) -> None:
    ended = gym("env", "list", "--head", stack.head.url, "--json")
    assert ended.code == 0
    listed = json.loads(ended.out)
    assert {name: set(each["tools"]) for name, each in listed.items()} == TOOLS
    assert [each["servers"] for each in listed.values()] == [[stack.resources.url]] * len(TOOLS)
    table = gym("env", "list", "--head", stack.head.url).out
    assert "dispatch" in next(line for line in table.splitlines() if "gridsim" in line)


@pytest.fixture
def replica_without_tools(stack: Stack) -> Iterator[str]:
    """The URL of a registered resources server, the first in the head's list, that has no `/tools`."""
    with serving_app(web.Application()) as url:
        where = urlsplit(url)
        registration = ServerRegistration(
            name="resources",
            server_type="resources_servers",
            host=str(where.hostname),
            port=int(where.port or 0),
            url=url,
            started_at=1.0,
            metadata={"envs": list(ENVIRONMENTS)},
        )
        path = f"{stack.head.url}/v1/servers/without-tools"
        httpx.put(path, json=registration.model_dump(), trust_env=False).raise_for_status()
        try:
            yield url
        finally:
            httpx.delete(path, trust_env=False)


def test_a_replica_that_cannot_tell_its_tools_hides_nobody_elses(stack: Stack, replica_without_tools: str) -> None:
    listed = json.loads(gym("env", "list", "--head", stack.head.url, "--json").out)
    assert {name: set(each["tools"]) for name, each in listed.items()} == TOOLS
    assert {tuple(each["servers"]) for each in listed.values()} == {(replica_without_tools, stack.resources.url)}
