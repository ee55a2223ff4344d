"""The OpenEnv WebSocket frame by frame, for each environment, as a client of the wire sees it."""

import json
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus

from integration.env_bundle.client import Admin, ask, hear, session, tell


async def test_reset_step_state_and_close(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        reset = await ask(socket, "reset", {"seed": 5, "episode_id": "mine"})
        assert (reset["type"], sorted(reset["data"])) == ("observation", ["done", "observation", "reward"])
        assert (reset["data"]["reward"], reset["data"]["done"]) == (None, False)
        step = await ask(socket, "step", {"message": "hi", "reward": 0.5, "done": True})
        assert step["data"]["observation"] == {"message": "hi", "seed": 5, "step": 1, "padding": ""}
        assert (step["data"]["reward"], step["data"]["done"]) == (0.5, True)
        assert (await ask(socket, "state"))["data"] == {"episode_id": "mine", "step_count": 1, "seed": 5}
        await tell(socket, "close")
        with pytest.raises(ConnectionClosedOK):
            await hear(socket)
    assert admin.active() == 0  # given back before the close frame was sent


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("{", "INVALID_JSON"),
        (b"{}", "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ('{"type":"jump"}', "UNKNOWN_TYPE"),
        ('{"type":{}}', "UNKNOWN_TYPE"),
        ("[" * 100_000, "INVALID_JSON"),
        ('{"type":"step"}', "VALIDATION_ERROR"),
        ('{"type":"reset","data":{"seed":1%s}}' % ("0" * 30), "VALIDATION_ERROR"),
        ('{"type":"reset","data":{"seed":"x"}}', "VALIDATION_ERROR"),
        ('{"type":"step","data":{"massage":"hi"}}', "VALIDATION_ERROR"),
        ('{"type":"step","data":{"fail":"boom"}}', "EXECUTION_ERROR"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_wrong_frame_is_answered_with_its_code_and_the_session_goes_on(
    url: str, admin: Admin, raw: str | bytes, code: str
) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        await socket.send(raw)
        answer = await hear(socket)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert answer["data"]["message"]
        assert ("errors" in answer["data"]) == (code == "VALIDATION_ERROR")
        assert (await ask(socket, "step", {"message": "still here"}))["type"] == "observation"


async def test_a_step_before_reset_is_an_execution_error(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        answer = await ask(socket, "step", {"message": "hi"})
        assert answer["data"]["code"] == "EXECUTION_ERROR"
        assert "reset first" in answer["data"]["message"]


async def test_two_resets_in_one_session_start_anew(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        for _ in range(2):
            await ask(socket, "reset", {})
            assert (await ask(socket, "step", {}))["data"]["observation"]["step"] == 1


async def test_requests_sent_ahead_are_answered_in_order(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        await tell(socket, "reset", {})
        for number in range(5):
            await tell(socket, "step", {"message": str(number), "delay_s": 0.01 * (5 - number)})
        await hear(socket)
        messages = [(await hear(socket))["data"]["observation"]["message"] for _ in range(5)]
    assert messages == ["0", "1", "2", "3", "4"]


async def test_sessions_do_not_see_each_other(url: str, admin: Admin) -> None:
    async with session(url) as one, session(url) as two:
        await ask(one, "reset", {"seed": 1})
        await ask(two, "reset", {"seed": 2})
        await ask(one, "step", {})
        answer = await ask(two, "step", {})
        assert (answer["data"]["observation"]["seed"], answer["data"]["observation"]["step"]) == (2, 1)


async def test_the_root_is_the_default_environment(url: str, admin: Admin) -> None:
    async with session(url, "") as socket:
        tools = (await ask(socket, "step", {"type": "list_tools"}))["data"]["observation"]["tools"]
    assert {tool["name"] for tool in tools} == {"dispatch", "get_forecast", "get_state"}


async def test_a_gridsim_tool_call_and_its_error(url: str, admin: Admin) -> None:
    async with session(url, "gridsim") as socket:
        await ask(socket, "reset", {"seed": 1})
        dispatch: dict[str, Any] = {"type": "call_tool", "tool_name": "dispatch"}
        good = await ask(socket, "step", {**dispatch, "arguments": {"steam_mw": 100, "peaker_mw": 50}})
        assert good["data"]["observation"]["error"] is None
        assert good["data"]["observation"]["result"]["state"]["hour"] == 1
        bad = await ask(socket, "step", {**dispatch, "arguments": {"steam_mw": "x"}})
        assert bad["type"] == "observation"
        assert bad["data"]["observation"]["error"]["error_type"] == "invalid_args"


async def test_mcp_frames_carry_json_rpc(url: str, admin: Admin) -> None:
    async with session(url, "gridsim") as socket:
        await ask(socket, "reset", {"seed": 1})
        listed = await ask(socket, "mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert listed["type"] == "mcp"
        assert len(listed["data"]["result"]["tools"]) == 3
        call = {"name": "get_state", "arguments": {}}
        called = await ask(socket, "mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        assert called["data"]["result"]["data"]["hour"] == 0
        wrong = await ask(socket, "mcp", {"method": "tools/list"})
        assert wrong["data"]["error"]["code"] == -32600


async def test_wordle_rewards_come_step_by_step(url: str, admin: Admin) -> None:
    async with session(url, "wordle") as socket:
        await ask(socket, "reset", {"seed": 4})
        answer = (await ask(socket, "step", {"guess": "crane"}))["data"]
        assert isinstance(answer["reward"], float)
        assert len(answer["observation"]["feedback"]) == 5


async def test_the_example_environment_is_played_from_its_file(url: str, admin: Admin) -> None:
    async with session(url, "number-hunt") as socket:
        await ask(socket, "reset", {"seed": 1})
        answer = await ask(socket, "step", {"guess": 50})
        assert answer["data"]["observation"]["message"] in {"Higher.", "Lower.", "Found."}
        assert (await ask(socket, "step", {"guess": 500}))["data"]["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("raw", ["NaN", "Infinity", '"0.5"', "1e999"])
async def test_a_reward_that_is_no_number_reaches_the_client_as_it_is(url: str, admin: Admin, raw: str) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        await tell(socket, "step", {"raw_reward": raw})
        assert f'"reward":{raw},' in str(await socket.recv())


async def test_an_observation_that_is_no_text_reaches_the_client_as_it_is(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        await tell(socket, "step", {"raw_observation_hex": "22fffe22"})
        assert b'"observation":"\xff\xfe"' in await socket.recv(decode=False)


async def test_an_unknown_environment_is_refused_at_the_upgrade(url: str, admin: Admin) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with session(url, "eco"):
            pass
    assert caught.value.response.status_code == 404
    body = json.loads(caught.value.response.body or b"")
    assert body["code"] == "unknown_environment"
    assert "did you mean echo" in body["message"]


async def test_a_20_mb_observation_passes(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        answer = await ask(socket, "step", {"size": 20_000_000})
        assert len(answer["data"]["observation"]["padding"]) == 20_000_000


async def test_an_answer_past_the_frame_limit_is_an_error_that_names_the_limit(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        answer = (await ask(socket, "step", {"size": 33 * 1024 * 1024}))["data"]
        assert answer["code"] == "EXECUTION_ERROR"
        assert answer["max_frame_bytes"] == 32 * 1024 * 1024


async def test_a_request_past_the_frame_limit_closes_the_socket_with_1009(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        with pytest.raises(ConnectionClosedError) as caught:
            await ask(socket, "reset", {"pad": "x" * (33 * 1024 * 1024)})
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


def test_metrics_count_sessions_and_steps(url: str, admin: Admin) -> None:
    assert admin.metric('rollgym_env_steps_total{env="echo"}') >= 0
    assert admin.metric("rollgym_env_slots") == float("inf")
    assert httpx.get(f"{url}/ready").status_code == 200
