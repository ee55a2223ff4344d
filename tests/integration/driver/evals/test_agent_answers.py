"""Agent servers asked for their aggregate: what they hear, and that what they do costs no more than its timeout."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from integration.driver.local_server import serving
from rollgym.driver.evals.agent_answers import AgentAnswers, ask_agents
from unit.driver.evals.artifacts import AGENT, result, write_run

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def asked(results: Path, handler: Handler, timeout_s: float = 10.0) -> AgentAnswers:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/aggregate_metrics", handler)
    async with serving(app) as url:
        return await ask_agents({AGENT: url}, results, timeout_s)


async def test_a_server_hears_its_own_rows_without_their_payloads(tmp_path: Path) -> None:
    heavy = {"output": ["x" * 1000], "usage": {"input_tokens": 3}, "incomplete_details": {"reason": "length"}}
    rows = [
        result(0, response=heavy, responses_create_params={"input": "?"}, ng_trajectory={}, num_steps=3, text="\ud800"),
        result(1, agent_ref={"name": "another"}),
    ]
    heard: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(await request.json())
        return web.json_response({"agent_metrics": {"elo": 1200}, "key_metrics": {"elo": 1200}})

    found = await asked(write_run(tmp_path, rows).results, answer)
    assert found.answers == {AGENT: {"agent_metrics": {"elo": 1200}, "key_metrics": {"elo": 1200}}}
    assert found.remarks == []
    row = {name: rows[0][name] for name in rows[0] if name not in ("responses_create_params", "ng_trajectory")}
    row["response"] = {"usage": {"input_tokens": 3}, "incomplete_details": {"reason": "length"}}
    assert heard == [{"verify_responses": [row]}]


async def test_many_rows_are_sent_in_pieces_and_arrive_whole(tmp_path: Path) -> None:
    rows = [result(number, note="x" * 500) for number in range(2000)]
    heard: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(len((await request.json())["verify_responses"]))
        return web.json_response({})

    await asked(write_run(tmp_path, rows).results, answer)
    assert heard == [2000]


async def _error(request: web.Request) -> web.Response:
    return web.json_response({"detail": "no such thing"}, status=500)


async def _nonsense(request: web.Request) -> web.Response:
    return web.Response(text="<html>")


async def _no_aggregate(request: web.Request) -> web.Response:
    return web.json_response({"agent_metrics": 3})


async def _cut(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def _hang(request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "timeout_s", "said"),
    [
        (_error, 10, "answered 500"),
        (_nonsense, 10, ""),
        (_no_aggregate, 10, "answered no aggregate"),
        (_cut, 10, ""),
        (_hang, 0.2, "no answer within 0.2 s"),
    ],
    ids=["500", "no-json", "no-aggregate", "cut", "hang"],
)
async def test_what_goes_wrong_is_a_remark(tmp_path: Path, handler: Handler, timeout_s: float, said: str) -> None:
    found = await asked(write_run(tmp_path, [result(0)]).results, handler, timeout_s)
    assert found.answers == {}
    (remark,) = found.remarks
    assert remark.startswith(f"{AGENT}: POST ")
    assert said in remark


async def test_a_server_that_offers_no_aggregate_is_no_remark(tmp_path: Path) -> None:
    async with serving(web.Application()) as url:
        assert await ask_agents({AGENT: url}, write_run(tmp_path, [result(0)]).results) == AgentAnswers()


async def test_a_server_that_is_gone_is_a_remark(tmp_path: Path) -> None:
    async with serving(web.Application()) as url:
        pass
    found = await ask_agents({AGENT: url}, write_run(tmp_path, [result(0)]).results)
    assert len(found.remarks) == 1


async def test_with_no_server_nothing_is_asked(tmp_path: Path) -> None:
    assert await ask_agents({}, tmp_path / "not-there.jsonl") == AgentAnswers()
