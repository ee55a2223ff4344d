"""The rest of the API: what tools there are, what is refused, what a person can look at."""

import json
from typing import Any

import httpx
import pytest

from integration.resources.env_server import EnvServer, Session, env_server, error, observation
from integration.resources.resources_server import ROW, resources

SCHEMAS = {
    "action": {
        "type": "object",
        "properties": {"guess": {"type": "string"}, "metadata": {"type": "object"}},
        "required": ["guess"],
        "additionalProperties": False,
    }
}
LISTED = [
    {"name": "look", "description": "Look around", "input_schema": {"type": "object", "properties": {}}},
    {
        "name": "go",
        "description": "Go somewhere",
        "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
    },
]


async def test_an_environment_without_tools_has_a_step_made_of_its_schema() -> None:
    async with env_server(schemas=SCHEMAS) as env, resources(env.url) as found:
        rollout = await found.opened()
        (tool,) = rollout.seed["tools"]
        assert (tool["name"], tool["parameters"]) == ("step", SCHEMAS["action"])
        answer = await rollout.call(arguments={"guess": 3})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_arguments")
        assert (await rollout.call(arguments={"guess": "crane"})).status_code == 200
        assert env.stats.steps == [{"guess": "crane"}]


async def test_a_server_that_offers_neither_gets_a_step_that_takes_any_object() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        assert rollout.seed["tools"][0]["parameters"] == {"type": "object", "additionalProperties": True}
        assert (await rollout.call(arguments={"any": ["thing"]})).status_code == 200
        assert (await found.client.post("/step", content=b"[1]", headers=rollout.headers)).status_code == 400


def with_tools(env: EnvServer) -> None:
    """The server's sessions answer `list_tools` and `call_tool` as MCP environments do."""

    async def answer(session: Session, message: dict[str, Any]) -> str:
        data = message.get("data", {})
        if message["type"] == "reset":
            return observation({"metadata": {}})
        if data.get("type") == "list_tools":
            return observation({"tools": LISTED, "metadata": {}})
        env.stats.steps.append(data)
        if data["tool_name"] == "go":
            failed = {"error_type": "execution_error", "message": "no way there"}
            return observation({"tool_name": "go", "result": None, "error": failed})
        seen = {"content": [{"type": "text", "text": "a lamp"}], "is_error": False}
        return observation({"tool_name": "look", "result": seen, "error": None}, 0.5, True)

    env.answer = answer


async def test_tools_over_mcp_are_discovered_called_and_read() -> None:
    async with env_server() as env, resources(env.url) as found:
        with_tools(env)
        rollout = await found.opened()
        assert [tool["name"] for tool in rollout.seed["tools"]] == ["look", "go"]
        assert (await rollout.call("go", {"to": "north"})).json() == {"error": "no way there"}
        missing = await rollout.call("go")
        assert (missing.status_code, missing.json()["code"]) == (422, "invalid_arguments")
        unknown = await rollout.call("fly")
        assert (unknown.status_code, unknown.json()["data"]["tools"]) == (404, ["look", "go"])
        seen = await rollout.call("look")
        assert (seen.text, seen.headers["content-type"]) == ("a lamp", "text/plain; charset=utf-8")
        assert seen.headers["x-rollgym-done"] == "1"
        assert env.stats.steps[0] == {"type": "call_tool", "tool_name": "go", "arguments": {"to": "north"}}
        assert (await rollout.verify()).json()["reward"] == 0.5


async def test_tools_can_be_looked_at() -> None:
    async with env_server() as env, resources({"env": env.url, "gone": "http://127.0.0.1:9"}) as found:
        with_tools(env)
        envs = (await found.client.get("/tools")).json()["envs"]
        assert [tool["name"] for tool in envs["env"]["tools"]] == ["look", "go"]
        assert envs["gone"]["error"]["code"] == "env_refused"
        rollout = await found.opened(env="env")
        mine = (await found.client.get("/tools", headers=rollout.headers)).json()
        assert (mine["env"], len(mine["tools"])) == ("env", 2)


@pytest.mark.parametrize(
    ("row", "said"),
    [({"env": "nope"}, "no environment 'nope'"), ({}, "names no `env`"), ({"env": "one", "seed": "x"}, "`seed`")],
    ids=["unknown", "none of several", "seed is text"],
)
async def test_a_row_that_cannot_be_seeded(row: dict[str, Any], said: str) -> None:
    async with resources({"one": "http://127.0.0.1:9", "two": "http://127.0.0.1:9"}) as found:
        answer = (await found.seeded(**row)).answer
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
        assert said in answer.json()["message"]


@pytest.mark.parametrize("path", ["/seed_session", "/verify", "/close_session", "/aggregate_metrics", "/step"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"], ids=["cut off", "an array", "no UTF-8"])
async def test_bodies_that_are_no_json_object(path: str, body: bytes) -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        answer = await found.client.post(path, content=body, headers=rollout.headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_liveness_readiness_and_the_small_routes() -> None:
    async with env_server() as env, resources(env.url) as found:
        assert (await found.client.get("/")).status_code == 200
        assert (await found.client.get("/health")).json()["status"] == "healthy"
        assert (await found.client.get("/ready")).json()["checks"] == {"env": "ok"}
        assert (await found.client.get("/reverify_mode")).json() == "unsupported"
        assert "rollgym_sessions_open 0.0" in (await found.client.get("/metrics")).text
        aggregated = await found.client.post("/aggregate_metrics", json={"verify_responses": [{"reward": 1.0}]})
        assert aggregated.json()["key_metrics"] == {"mean/reward": 1.0}
        assert (await found.client.get("/seed_session")).status_code == 405
        await env.stop()
        ready = await found.client.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")


@pytest.mark.parametrize("rollout", ["4-1", "4-1-a2", "a.b_c-d"])
async def test_nemo_gyms_prefix_for_a_rollout_leads_to_the_same_routes(rollout: str) -> None:
    async with env_server(rewards=(0.5,)) as env, resources(env.url) as found:
        under = f"/ng-rollout/{rollout}"
        row: dict[str, Any] = {"responses_create_params": {"input": []}}
        seeded = await found.client.post(f"{under}/seed_session", json=row)
        cookie = {"cookie": seeded.headers["set-cookie"].split(";")[0]}
        assert (await found.client.post(f"{under}/step", json={}, headers=cookie)).headers["x-rollgym-done"] == "1"
        unknown = await found.client.post(f"{under}/a/b", json={}, headers=cookie)
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
        verdict = await found.client.post(f"{under}/verify", json={**row, "response": {}}, headers=cookie)
        assert verdict.json()["reward"] == 0.5
        assert (await found.client.get(f"{under}/reverify_mode")).status_code == 200
        assert (await found.client.post("/ng-rollout/.hidden/step", json={}, headers=cookie)).status_code == 404


async def test_a_bearer_token_guards_every_route_but_liveness() -> None:
    async with env_server() as env, resources(env.url, token="t" * 20) as found:
        for path in ("/seed_session", "/step", "/verify", "/close_session", "/aggregate_metrics"):
            assert (await found.client.post(path, json=ROW)).status_code == 401
        for path in ("/sessions", "/tools"):
            assert (await found.client.get(path)).status_code == 401
        assert (await found.client.get("/health")).status_code == 200
        allowed = {"Authorization": f"Bearer {'t' * 20}"}
        assert (await found.client.post("/seed_session", json=ROW, headers=allowed)).status_code == 200
        assert env.stats.opens == 1


async def test_a_body_past_the_limit_is_413() -> None:
    async with env_server() as env, resources(env.url, max_body_bytes=10_000) as found:
        rollout = await found.opened()
        for path in ("/seed_session", "/step", "/verify"):
            answer = await found.client.post(path, json={"x": "y" * 20_000}, headers=rollout.headers)
            assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        assert (await rollout.call()).status_code == 200


async def test_an_observation_of_20_mb_is_read() -> None:
    async with env_server() as env, resources(env.url) as found:

        async def large(_: Session, __: Any) -> str:
            return observation({"pad": "x" * 20_000_000}, 1.0, True)

        env.on_step = large
        rollout = await found.opened()
        assert len((await rollout.call()).json()["observation"]["pad"]) == 20_000_000


@pytest.mark.parametrize("when", ["reset", "step"])
async def test_an_observation_past_the_limit_fails_at_once_and_names_the_limit(when: str) -> None:
    async with env_server() as env, resources(env.url, max_frame_bytes=100_000) as found:

        async def large(*_: Any) -> str:
            return observation({"pad": "x" * 200_000})

        if when == "reset":
            env.on_reset = large
            answer = (await found.seeded()).answer
        else:
            rollout = await found.opened()
            env.on_step = large
            answer = await rollout.call()
            assert (await rollout.verify()).json()["failure_kind"] == "env_protocol"
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        assert "max_frame_bytes" in answer.json()["message"]
        assert env.stats.opens == 1
        await found.nothing_left()


async def test_text_that_utf8_cannot_hold_reaches_the_model_as_escapes() -> None:
    async with env_server() as env, resources(env.url) as found:

        async def odd(_: Session, __: Any) -> str:
            return '{"type":"observation","data":{"observation":{"t":"a\\ud800b\\u2028"},"reward":1,"done":true}}'

        env.on_step = odd
        rollout = await found.opened()
        assert (await rollout.call()).json()["observation"]["t"] == "a\\ud800b\u2028"


# Tools over MCP


async def rpc(client: httpx.AsyncClient, token: dict[str, str], method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await client.post("/mcp", json=body, headers=token)
    return answer.json()


async def test_a_sessions_tools_over_mcp() -> None:
    async with env_server() as env, resources(env.url, tools_over_mcp=True) as found:
        with_tools(env)
        rollout = await found.opened()
        offered = rollout.seed["mcp"]
        assert (offered["url_path"], offered["transport"]) == ("/mcp", "http")
        token = offered["headers"]
        assert "tools" in (await rpc(found.client, token, "initialize"))["result"]["capabilities"]
        told = await found.client.post(
            "/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=token
        )
        assert told.status_code == 202
        listed = (await rpc(found.client, token, "tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["look", "go"]
        failed = (await rpc(found.client, token, "tools/call", name="go", arguments={}))["result"]
        assert failed["isError"]
        seen = (await rpc(found.client, token, "tools/call", name="look", arguments={}))["result"]
        assert seen == {"content": [{"type": "text", "text": "a lamp"}], "isError": False}
        assert (await rpc(found.client, token, "nope"))["error"]["code"] == -32601
        assert "session" in (await found.client.post("/mcp", json={"id": 1, "method": "tools/list"})).text


async def test_mcp_is_off_unless_asked_for() -> None:
    async with env_server() as env, resources(env.url) as found:
        assert "mcp" not in (await found.opened()).seed
        assert (await found.client.post("/mcp", json={})).status_code == 404


async def test_a_capacity_frame_that_lost_the_race_against_its_close_is_read() -> None:
    async with env_server() as env, resources(env.url, patience_s=0.5) as found:

        async def refuse_unasked(session: Session, _: dict[str, Any]) -> str | None:
            await session.connection.send(error("CAPACITY_REACHED", "full", max_sessions=3))
            await session.connection.close()
            return None

        env.answer = refuse_unasked
        answer = (await found.seeded()).answer
        assert "CAPACITY_REACHED" in json.loads(answer.text)["data"]["last_cause"]
        assert found.server.doors["env"].gate.max_sessions == 3
