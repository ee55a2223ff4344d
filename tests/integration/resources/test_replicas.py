"""Replicas behind a proxy that knows no sessions: a call at the wrong one is told so, and opens nothing there."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
from aiohttp import web

from integration.resources.commands import all_slots_free, bundle, client_of, nothing_held, resources_for, stats_of
from integration.resources.load import Agent, Answer, Rollout, agent
from waiting import eventually

ROLLOUTS = 50
SAME_KEY = ("--signing-key", "one key for both replicas")


@asynccontextmanager
async def round_robin(*urls: str) -> AsyncIterator[str]:
    """A proxy that hands each request to the next replica."""
    turns = itertools.cycle(urls)

    async def forward(request: web.Request) -> web.Response:
        headers = {name: request.headers[name] for name in ("Cookie", "X-Session-Id") if name in request.headers}
        body = await request.read()
        async with http.request(request.method, next(turns) + request.path, data=body, headers=headers) as answer:
            kept = {name: answer.headers[name] for name in ("Content-Type", "Set-Cookie") if name in answer.headers}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()


async def asked_until_found(player: Agent, path: str, rollout: Rollout, wrong: list[Answer]) -> Answer:
    """Ask again, as each request goes to the other replica."""
    while (answer := await player.post(path, {"reward": 0.5}, rollout.cookie)).status != 200:
        wrong.append(answer)
    return answer


async def test_a_call_at_the_wrong_replica_is_refused_and_opens_nothing() -> None:
    wrong: list[Answer] = []

    async def play(player: Agent, number: int) -> float:
        rollout = await player.seeded(seed=number)
        for _ in range(2):
            await asked_until_found(player, "/step", rollout, wrong)
        reward: float = (await asked_until_found(player, "/verify", rollout, wrong)).body["reward"]
        return reward

    async with bundle() as env, resources_for(env.url, *SAME_KEY) as one, resources_for(env.url, *SAME_KEY) as other:
        async with round_robin(one.url, other.url) as url, agent(url) as player:
            assert await asyncio.gather(*(play(player, number) for number in range(ROLLOUTS))) == [1.0] * ROLLOUTS
            rollout = await player.seeded()
            by_id = {"X-Session-Id": rollout.cookie.partition("=")[2].split(".")[1]}
            answers = [await player.post("/step", {}, **by_id) for _ in range(2)]
            assert sorted(answer.status for answer in answers) == [200, 401]
            await asked_until_found(player, "/close_session", rollout, wrong)
        assert {(answer.status, answer.body["code"]) for answer in wrong} == {(421, "session_elsewhere")}
        assert (await stats_of(env.url))["opens"] == ROLLOUTS + 1
        for replica in (one, other):
            async with client_of(replica) as client:
                assert await eventually(partial(nothing_held, client))
        assert await eventually(lambda: all_slots_free(env.url))
