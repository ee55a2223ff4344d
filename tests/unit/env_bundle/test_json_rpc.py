"""MCP as JSON-RPC: results, and the error code for each thing that can be wrong."""

from typing import Any

import pytest

from rollgym.env_bundle import json_rpc
from rollgym.env_bundle.environment import Environment
from rollgym.env_bundle.environments.echo import Echo
from rollgym.env_bundle.environments.gridsim import GridSim
from unit.env_bundle.playing import reset


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def test_tools_list_needs_no_reset() -> None:
    answer = await json_rpc.answer(GridSim(), request("tools/list"))
    assert answer["id"] == 1
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["dispatch", "get_forecast", "get_state"]
    assert all("inputSchema" in tool for tool in answer["result"]["tools"])


async def test_tools_call_gives_the_result_as_text_and_data() -> None:
    grid = GridSim()
    await reset(grid, seed=1)
    result = (await json_rpc.answer(grid, request("tools/call", name="get_forecast", arguments={"hours": 1})))["result"]
    assert result["is_error"] is False
    assert result["data"]["forecast"][0]["hour"] == 0
    assert result["content"][0]["text"].startswith('{"forecast"')
    assert result["meta"] == {"reward": None, "done": False}


async def test_a_tools_error_is_a_result_marked_as_one() -> None:
    grid = GridSim()
    await reset(grid, seed=1)
    result = (await json_rpc.answer(grid, request("tools/call", name="dispatch", arguments={})))["result"]
    assert result["is_error"] is True
    assert "steam_mw" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("environment", "asked", "code"),
    [
        pytest.param(GridSim(), {}, json_rpc.INVALID_REQUEST, id="no-request"),
        pytest.param(GridSim(), [], json_rpc.INVALID_REQUEST, id="no-object"),
        pytest.param(GridSim(), request("tools/shake"), json_rpc.METHOD_NOT_FOUND, id="unknown-method"),
        pytest.param(GridSim(), request("tools/call"), json_rpc.INVALID_PARAMS, id="no-name"),
        pytest.param(GridSim(), request("tools/call", name="get_state"), json_rpc.INTERNAL_ERROR, id="not-reset"),
        pytest.param(Echo(), request("tools/list"), json_rpc.INTERNAL_ERROR, id="no-tools"),
    ],
)
async def test_each_mistake_has_its_code(environment: Environment[Any], asked: Any, code: int) -> None:
    answer = await json_rpc.answer(environment, asked)
    assert answer["error"]["code"] == code
    assert "result" not in answer
