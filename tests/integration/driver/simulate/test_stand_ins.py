"""The simulated agents and model as processes: seeded, counted, stopped."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import httpx
import pytest

from rollgym.driver.simulate.agent_fleet import AGENT_NAME
from rollgym.driver.simulate.processes import SimulationError, module_command, serving
from waiting import eventually

SMALL = ("--messages", "2", "--characters", "20", "--calls", "1", "--latency", "fixed:0")


def _row(task: int, rollout: int, attempt: int = 0) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "_ng_attempt_index": attempt}


async def _statuses(url: str, rows: Sequence[dict[str, Any]]) -> list[int]:
    async with aiohttp.ClientSession() as http:

        async def ask(row: dict[str, Any]) -> int:
            async with http.post(f"{url}/run", json=row) as response:
                await response.read()
                return response.status

        return await asyncio.gather(*map(ask, rows))


async def test_which_attempts_fail_depends_on_the_seed_alone() -> None:
    rows = [_row(task, rollout) for task in range(8) for rollout in range(8)]
    failing = (*SMALL, "--fail-rate", "0.3", "--seed", "5")
    with serving("agents", module_command("agent_fleet", *failing)) as agents:
        first = await _statuses(agents.url, rows)
        again = await _statuses(agents.url, rows[::-1])
        stat = agents.stat()
    assert first == again[::-1]
    assert set(first) == {200, 500}
    assert len(stat["answered_at"]) == 128
    assert len(stat["failed_attempts"]) == 2 * first.count(500)
    assert stat["in_flight"] == 0


async def test_a_second_attempt_has_a_fate_of_its_own() -> None:
    with serving("agents", module_command("agent_fleet", *SMALL, "--fail-rate", "0.5")) as agents:
        fates = [await _statuses(agents.url, [_row(task, 0, attempt) for task in range(20)]) for attempt in (0, 1)]
    assert fates[0] != fates[1]


async def test_an_open_loop_begins_rollouts_at_its_own_times() -> None:
    flags = ("--rate", "100", "--seed", "2")
    with serving("agents", module_command("agent_fleet", *SMALL, *flags)) as agents:
        await _statuses(agents.url, [_row(0, rollout) for rollout in range(30)])
        at_once = agents.stat()
        for rollout in range(30, 33):
            await _statuses(agents.url, [_row(0, rollout)])
        stat = agents.stat()
    assert at_once["answered_at"] == sorted(at_once["answered_at"])
    assert at_once["answered_at"][-1] - at_once["answered_at"][0] > 0.1, "30 rollouts at 100 a second"
    assert len(stat["late_s"]) == 33


def test_the_fleet_is_its_own_head_for_both_kinds_of_driver() -> None:
    with serving("agents", module_command("agent_fleet", *SMALL, "--also", "http://127.0.0.1:9")) as agents:
        servers = httpx.get(f"{agents.url}/v1/servers").json()["servers"]
        instances = httpx.get(f"{agents.url}/server_instances").json()
        configuration = httpx.get(f"{agents.url}/global_config_dict_yaml").json()
        assert httpx.put(f"{agents.url}/v1/runs/r", json={}).status_code == 204
        assert httpx.get(f"{agents.url}/nowhere").status_code == 404
    assert [server["url"] for server in servers] == [agents.url, "http://127.0.0.1:9"]
    assert {server["name"] for server in instances} == {AGENT_NAME}
    assert AGENT_NAME in configuration


def test_the_model_calls_a_tool_until_its_last_turn() -> None:
    with serving("model", module_command("model_stub", "--turns", "3")) as model:
        result = {"type": "function_call_output", "call_id": "c", "output": '{"type":"function_call_output"}'}
        answers = [
            httpx.post(f"{model.url}/v1/responses", json={"input": [result] * results}).json() for results in range(4)
        ]
        stat = model.stat()
    kinds = [answer["output"][0]["type"] for answer in answers]
    assert kinds == ["function_call", "function_call", "message", "message"]
    assert (stat["calls"], stat["answered"]) == (4, 4)


def test_a_server_that_does_not_start_is_told_with_its_last_words() -> None:
    with (
        pytest.raises(SimulationError, match=r"did not start to listen: (.|\n)*is no latency|invalid parse value"),
        serving("agents", module_command("agent_fleet", "--latency", "soon")),
    ):
        pass


async def test_a_stand_in_ends_with_the_process_that_started_it() -> None:
    process = await asyncio.create_subprocess_exec(
        *module_command("model_stub"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert b"listening on" in await asyncio.wait_for(process.stdout.readline(), 20)
        process.stdin.close()
        assert await eventually(lambda: process.returncode is not None)
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
