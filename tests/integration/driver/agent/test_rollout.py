"""The built-in agent's loop against a real server: what is asked, what is judged, what is told."""

import asyncio
import re
from typing import Any

import pytest
from aiohttp import web

from integration.driver.agent.resources_server import STEP, answering, echo, fake_resources, refusing
from integration.driver.agent.rollouts import Heard, outputs, roll, step, task
from integration.driver.policies.conversations import chat_answer, responses_answer
from integration.driver.policies.model_server import Answer, model_server
from integration.driver.policies.model_server import settings as policy_settings
from rollgym.common import jsonx
from rollgym.common.errors import InvalidArguments, SessionClosed
from rollgym.driver.agent import AgentSettings, RolloutProgress, run_rollout
from rollgym.driver.policies import PolicySettings, Usage, create_policy
from rollgym.driver.resources_client import ResourcesClient


async def test_a_rollout_is_seeded_played_and_verified_in_one_session() -> None:
    row = task(step(n=1), step(n=2), {"text": "done"}, seed=7)
    async with fake_resources() as server:
        result = await roll(server.url, row)
    assert server.arrivals == ["seed_session", "step", "step", "verify"]
    assert server.seeds == [jsonx.loads(row.raw)]
    assert [body for _, _, body in server.calls] == [{"n": 1}, {"n": 2}]
    assert len({session for session, _, _ in server.calls}) == 1
    assert server.open == set()
    assert (result.reward, result.mask_sample, result.truncated) == (0.75, False, False)
    assert (result.turns, result.tool_calls, result.usage) == (3, 2, None)


async def test_the_verify_request_is_the_row_with_everything_that_was_said() -> None:
    row = task([step(n=1), step(n=2)], {"text": "done"}, tags={"season": "winter"})
    async with fake_resources() as server:
        await roll(server.url, row)
    (verified,) = server.verified
    response = verified.pop("response")
    assert verified == jsonx.loads(row.raw)
    assert [item["type"] for item in response["output"]] == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert "usage" not in response
    assert response["status"] == "completed"


async def test_the_model_sees_input_observation_and_tools() -> None:
    answer = responses_answer(output=responses_answer()["output"][:2])
    async with model_server(Answer(answer)) as model, fake_resources(observation={"message": "Go.", "n": 3}) as server:
        policy = create_policy(policy_settings(model, "openai-responses"))
        await roll(server.url, task(params={"input": [{"role": "system", "content": "s"}]}), policy=policy)
    assert model.requests[0]["input"] == [
        {"role": "system", "content": "s"},
        {"type": "message", "role": "user", "content": 'Go.\n\n{"n":3}'},
    ]
    assert model.requests[0]["tools"] == [STEP]


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat"])
async def test_a_models_parallel_calls_are_answered_in_call_order(kind: str) -> None:
    arrived: list[str] = []
    first_waits = asyncio.Event()

    async def weather(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        """The first city's answer comes after the second's."""
        arrived.append(body["city"])
        if body["city"] == "Lisbon":
            await first_waits.wait()
        else:
            first_waits.set()
        return web.json_response({"weather": body["city"]})

    whole = responses_answer() if kind == "openai-responses" else chat_answer()
    last = responses_answer(output=[]) if kind == "openai-responses" else chat_answer()
    if kind == "openai-chat":
        last["choices"][0]["message"] = {"role": "assistant", "content": "Sunny."}
    tool = {**STEP, "name": "get_weather"}
    overrides = {"get_weather": weather}
    async with model_server(Answer(whole), Answer(last)) as model, fake_resources(overrides=overrides) as server:
        policy = create_policy(policy_settings(model, kind))
        result = await roll(server.url, task(params={"input": "x", "tools": [tool]}), policy=policy)
    assert sorted(arrived) == ["Lisbon", "Porto"]
    assert outputs(result) == ['{"weather": "Lisbon"}', '{"weather": "Porto"}']
    assert result.usage == Usage(200, 60, 100, 20, 300)
    assert jsonx.loads(result.verify_body)["response"]["usage"]["total_tokens"] == 300


async def test_calls_go_out_strictly_in_order_where_asked() -> None:
    row = task([step(n=n) for n in range(20)])
    async with fake_resources() as server:
        await roll(server.url, row, parallel_tool_calls=1)
    assert [body["n"] for _, _, body in server.calls] == list(range(20))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        pytest.param({"name": "step", "arguments": "no json"}, "no JSON", id="no-json"),
        pytest.param({"name": "step", "arguments": "[1]"}, "one JSON object", id="no-object"),
        pytest.param({"name": "step", "arguments": '{"x": NaN}'}, "NaN", id="nan"),
        pytest.param({"name": "fly", "arguments": {}}, "no tool 'fly'; the tools are: step", id="unknown-tool"),
        pytest.param({"name": "verify", "arguments": {}}, "no tool 'verify'", id="a-route-that-is-no-tool"),
        pytest.param({"name": "../verify", "arguments": {}}, "no tool '../verify'", id="a-path-out"),
    ],
)
async def test_a_wrong_call_is_told_to_the_model_and_never_sent(call: dict[str, Any], told: str) -> None:
    async with fake_resources() as server:
        result = await roll(server.url, task(call, step(n=1)))
    assert server.arrivals == ["seed_session", "step", "verify"]
    first, second = outputs(result)
    assert told in jsonx.loads(first)["error"]
    assert jsonx.loads(second) == {"said": {"n": 1}}


async def test_a_route_that_is_no_tool_stays_shut_where_no_tools_are_known() -> None:
    row = task({"name": "close_session"}, params={"input": "x"})
    async with fake_resources(overrides={"seed_session": answering(body=b"", Set_Cookie="session=x")}) as server:
        server.open.add("x")
        result = await roll(server.url, row)
    assert server.arrivals == ["seed_session", "verify"]
    assert "no tool" in outputs(result)[0]


async def test_empty_arguments_are_an_empty_object() -> None:
    async with fake_resources() as server:
        await roll(server.url, task({"name": "step", "arguments": ""}))
    assert server.calls[0][2] == {}


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        pytest.param(answering(body=b'{"error": "the grid is down"}'), "the grid is down", id="own-error"),
        pytest.param(refusing(InvalidArguments("n must be a number")), "n must be a number", id="422"),
        pytest.param(answering(status=404, body=b"nope"), "nope", id="foreign-404"),
        pytest.param(answering(status=500, body=b"Internal Server Error"), "Internal Server Error", id="foreign-500"),
        pytest.param(answering(status=500), "HTTP 500", id="foreign-500-empty"),
        pytest.param(answering(body=b"\xff bytes"), "\ufffd bytes", id="no-utf-8"),
    ],
)
async def test_what_a_tool_says_goes_to_the_model(handler: Any, told: str) -> None:
    heard = Heard()
    async with fake_resources(overrides={"step": handler}) as server:
        result = await roll(server.url, task(step(n=1)), observer=heard)
    assert told in outputs(result)[0]
    assert result.reward == 0.75
    assert heard.tools == ["completed" if "bytes" in told else "failed"]


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(echo, id="header"),
        pytest.param(answering(body=b'{"observation": {}, "done": true}'), id="in-the-text"),
        pytest.param(refusing(SessionClosed("the episode is over")), id="410-closed"),
    ],
)
async def test_the_end_of_the_episode_ends_the_loop(handler: Any) -> None:
    async with fake_resources(overrides={"step": handler}) as server:
        result = await roll(server.url, task(step(done=True), step(n=2)))
    assert server.arrivals.count("step") == 1
    assert (result.turns, result.truncated) == (1, False)
    assert len(outputs(result)) == 1


async def test_used_up_turns_are_a_scored_row_marked_truncated() -> None:
    async with fake_resources() as server:
        result = await roll(server.url, task(step(n=1), step(n=2), step(n=3)), max_steps=2)
    row = jsonx.loads(result.verify_body)
    assert (result.reward, result.truncated, result.turns) == (0.75, True, 2)
    assert row["truncated"] is True
    assert row["response"]["status"] == "incomplete"
    assert row["response"]["metadata"]["ng_termination_reason"] == "max_steps"
    assert jsonx.loads(result.trajectory or b"")["invocations"][0]["status"] == "incomplete"


async def test_an_answer_cut_by_length_ends_the_rollout_truncated_and_its_calls_are_not_made() -> None:
    cut = responses_answer(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    async with model_server(Answer(cut)) as model, fake_resources() as server:
        result = await roll(server.url, task(), policy=create_policy(policy_settings(model, "openai-responses")))
    assert server.arrivals == ["seed_session", "verify"]
    assert (result.truncated, result.reward) == (True, 0.75)


async def test_a_masked_verdict_is_passed_on_with_its_reason() -> None:
    verdict = {"reward": 0.0, "mask_sample": True, "failure_kind": "env_lost", "failure_reason": "gone"}
    async with fake_resources(verdict=verdict) as server:
        result = await roll(server.url, task(step(n=1)))
    assert (result.mask_sample, result.failure_kind, result.failure_reason) == (True, "env_lost", "gone")


async def test_a_verify_answer_without_echo_is_taken_as_it_is() -> None:
    async with fake_resources(overrides={"verify": answering(body=b' {"reward": true}\n')}) as server:
        result = await roll(server.url, task(step(n=1)))
    assert (result.reward, result.verify_body) == (1.0, b'{"reward": true}')


async def test_the_trajectory_tells_turns_calls_and_times() -> None:
    async with fake_resources() as server:
        result = await roll(server.url, task([step(n=1), {"name": "fly"}], {"text": "done"}))
    trajectory = jsonx.loads(result.trajectory or b"")
    assert (trajectory["task_id"], trajectory["rollout_id"]) == ("0", "0-0")
    assert [turn["step_count"] for turn in trajectory["turns"]] == [2, 2]
    assert [(call["tool_name"], call["status"], call["error_type"]) for call in trajectory["tool_calls"]] == [
        ("step", "completed", None),
        ("fly", "failed", "unknown_tool"),
    ]
    assert [item.get("type") for item in trajectory["invocations"][0]["conversation"]] == [
        "message",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert all(call["request"] is None and call["response"] is None for call in trajectory["model_calls"])


async def test_where_no_tool_is_known_a_name_of_two_segments_is_still_none() -> None:
    overrides = {"seed_session": answering(body=b"{}"), "verify": answering(body=b'{"reward": 1}')}
    async with fake_resources(overrides=overrides) as server:
        result = await roll(server.url, task([{"name": "owners/x"}, {"name": "ng-rollout/1/close_session"}]))
    calls = jsonx.loads(result.trajectory or b"")["tool_calls"]
    assert [call["error_type"] for call in calls] == ["unknown_tool", "unknown_tool"]


async def test_payloads_are_captured_on_request() -> None:
    answer = responses_answer(output=responses_answer()["output"][:2])
    async with model_server(Answer(answer)) as model, fake_resources() as server:
        policy = create_policy(policy_settings(model, "openai-responses"))
        result = await roll(server.url, task(), policy=policy, capture_payloads=True)
    (call,) = jsonx.loads(result.trajectory or b"")["model_calls"]
    assert call["request"] == model.requests[0]
    assert call["response"] == answer
    assert call["response_metadata"]["response_id"] == "resp_1"
    assert call["token_stats"]["cached_tokens"] == 30


async def test_no_trajectory_where_observability_is_off() -> None:
    async with fake_resources() as server:
        result = await roll(server.url, task(step(n=1)), observability_enabled=False)
    assert result.trajectory is None


async def test_progress_and_observer_hear_of_everything() -> None:
    progress, heard = RolloutProgress(), Heard()
    async with fake_resources() as server:
        result = await roll(server.url, task([step(n=1), {"name": "fly"}]), progress=progress, observer=heard)
    assert (progress.phase, progress.turns, progress.tool_calls) == ("done", 2, 2)
    assert re.match(r"s\d", progress.session_id or "")
    assert len(heard.sessions) == 1
    assert heard.models == [(None, None), (None, None)]
    assert sorted(heard.tools) == ["completed", "failed"]
    assert progress.active_s >= result.timings.model_s + result.timings.tools_s + result.timings.verify_s


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_sessions_never_mix_whatever_the_host_is_called(host: str) -> None:
    async with fake_resources() as server:
        url = server.url.replace("127.0.0.1", host)
        async with (
            ResourcesClient() as resources,
            create_policy(PolicySettings()) as policy,
            asyncio.TaskGroup() as group,
        ):
            for n in range(64):
                group.create_task(
                    run_rollout(
                        task(step(n=n), step(n=n)),
                        resources=resources,
                        base_url=url,
                        policy=policy,
                        settings=AgentSettings(),
                    )
                )
    numbers: dict[str, set[int]] = {}
    for session, _, body in server.calls:
        numbers.setdefault(session, set()).add(body["n"])
    assert len(numbers) == 64
    assert all(len(own) == 1 for own in numbers.values())


async def test_a_name_that_no_text_can_hold_is_an_unknown_tool_like_any_other() -> None:
    overrides = {"seed_session": answering(body=b'{"session_id": "x"}', Set_Cookie="session=x")}
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "fl\ud83dy", "arguments": "{}"}
    answers = Answer(responses_answer(output=[call])), Answer(responses_answer(output=[]))
    async with model_server(*answers) as model, fake_resources(overrides=overrides) as server:
        server.open.add("x")
        policy = create_policy(policy_settings(model, "openai-responses"))
        result = await roll(server.url, task(), policy=policy)
    assert "there is step" in outputs(result)[0]
    assert jsonx.loads(result.trajectory or b"")["tool_calls"][0]["tool_name"] == "fl?y"
