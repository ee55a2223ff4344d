"""The driver's sessions end with their rollout, where an answer was lost, and with the driver, where it was killed."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from structlog.testing import capture_logs

from integration.driver.agent.resources_server import answering, drop, fake_resources, hang
from integration.driver.local_server import serving
from integration.resources.env_server import Session, env_server, observation
from integration.resources.network import network_to
from integration.resources.resources_server import resources
from rollgym.common import jsonx
from rollgym.common.errors import EnvLost
from rollgym.driver.resources_client import NAME_HEADER, ResourcesClient
from waiting import eventually

ROW = b'{"responses_create_params": {"input": []}}'
PLAYER = """
import asyncio, sys
from rollgym.driver.resources_client import ResourcesClient

async def main():
    async with ResourcesClient() as client:
        for _ in range(3):
            await client.session(sys.argv[1]).seed(b'{"responses_create_params": {"input": []}}')
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_driver_leaves_no_session() -> None:
    async with env_server() as env, resources(env.url, owner_grace_s=0.1) as found:
        player = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PLAYER, found.url, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert player.stdout is not None
            assert await asyncio.wait_for(player.stdout.readline(), 20) == b"open\n"
            await eventually(lambda: len(found.server.owners) == 1)
            assert env.stats.active == 3
        finally:
            player.send_signal(signal.SIGKILL)
            await player.wait()
        await found.nothing_left()
        await eventually(lambda: env.stats.active == 0)


async def test_a_session_whose_seed_was_answered_into_a_cut_network_is_closed_when_it_is_back() -> None:
    async with env_server() as env, resources(env.url) as found:
        asked, release = asyncio.Event(), asyncio.Event()

        async def reset(_: Session) -> str:
            asked.set()
            await release.wait()
            return observation({})

        env.on_reset = reset
        async with network_to(int(found.url.rpartition(":")[2])) as network, ResourcesClient() as client:
            session = client.session(network.url)
            seeding = asyncio.create_task(session.seed(ROW))
            await asyncio.wait_for(asked.wait(), 5)
            network.cut()
            release.set()
            await eventually(lambda: found.metric("rollgym_sessions_open") == 1)
            seeding.cancel()
            await asyncio.wait({seeding})
            await session.close(timeout_s=0.7)
            assert found.metric("rollgym_sessions_open") == 1
            network.mend()
            await found.nothing_left()
            await eventually(lambda: env.stats.active == 0)


async def test_a_seed_that_was_cut_off_is_closed_by_the_name_that_it_was_sent_with() -> None:
    named: list[str | None] = []
    closed: list[Any] = []

    async def lose(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        named.append(request.headers.get(NAME_HEADER))
        return await drop(request, session, body)

    async def close(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        closed.append(body)
        return await drop(request, session, body) if len(closed) == 1 else web.json_response({})

    overrides = {"seed_session": lose, "close_session": close}
    async with fake_resources(overrides=overrides) as server, ResourcesClient() as client:
        session = client.session(server.url)
        with pytest.raises(EnvLost):
            await session.seed(ROW)
        await session.close(timeout_s=5)
    (name,) = named
    assert closed == [{"resources_session_id": name, "episode_id": {"rollout_id": name}}] * 2


@pytest.mark.parametrize("status", [408, 429, 500, 502])
async def test_a_close_that_settled_nothing_is_tried_again(status: int) -> None:
    answers = [status, status, 200]

    async def close(*_: Any) -> web.StreamResponse:
        return web.json_response({}, status=answers.pop(0))

    async with fake_resources(overrides={"close_session": close}) as server, ResourcesClient() as client:
        session = client.session(server.url)
        await session.seed(ROW)
        await session.close(timeout_s=5)
    assert answers == []


async def test_the_log_of_a_session_that_is_not_closed_yet_lets_nobody_use_it() -> None:
    session_id = "0123456789abcdef" * 2
    overrides = {"seed_session": answering(body=jsonx.dumps({"session_id": session_id})), "close_session": hang}
    said = ["session_not_closed_yet", "session_not_closed"]
    with capture_logs() as log:
        async with fake_resources(overrides=overrides) as server, ResourcesClient(late_closes_s=0.05) as client:
            session = client.session(server.url.replace("//", "//user:password@"))
            await session.seed(ROW)
            await session.close(timeout_s=0.05)
            await eventually(lambda: [line["event"] for line in log if line["event"] in said] == said)
    assert not any(secret in str(log) for secret in (session_id, "password"))
    assert [line["session"] for line in log if line["event"] in said] == ["01234567"] * 2


async def test_each_replica_behind_one_address_has_the_driver_there_again_after_a_cut() -> None:
    async with (
        env_server() as env,
        resources(env.url) as one,
        resources(env.url) as other,
        sticky_proxy(one.url, other.url) as proxy,
        ResourcesClient() as client,
    ):
        for _ in range(4):
            await client.session(proxy.url).seed(ROW)
        await eventually(lambda: proxy.led_back == {"0": 1, "1": 1})
        proxy.cut_held()
        await eventually(lambda: proxy.led_back == {"0": 2, "1": 2})
        assert len(one.server.owners) == len(other.server.owners) == 1
        assert [replica.metric("rollgym_sessions_open") for replica in (one, other)] == [2, 2]


class StickyProxy:
    """Sends a client that has no cookie of its own yet to each replica in turn, and back to it from then on."""

    def __init__(self, replicas: tuple[str, ...]) -> None:
        self._replicas = replicas
        self._turn = 0
        self._held: set[asyncio.Task[Any]] = set()
        self.led_back: Counter[str] = Counter()
        """Requests to be held that a cookie led, by replica."""
        self.url = ""

    def cut_held(self) -> None:
        """End the requests that are being held, as a proxy does with those that are silent for long."""
        for task in self._held:
            task.cancel()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        to_hold = request.path.startswith("/owners/")
        number = request.cookies.get("PROXY")
        if number is None:
            number = str(self._turn % len(self._replicas))
            self._turn += 1
        elif to_hold:
            self.led_back[number] += 1
        forwarding = asyncio.ensure_future(self._forward(request, self._replicas[int(number)]))
        if to_hold:
            self._held.add(forwarding)
            forwarding.add_done_callback(self._held.discard)
        try:
            await asyncio.wait({forwarding})
        finally:
            forwarding.cancel()
        if forwarding.cancelled():
            return web.Response(status=504)
        answer = forwarding.result()
        answer.set_cookie("PROXY", number)
        return answer

    async def _forward(self, request: web.Request, replica: str) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "te")}
        body = await request.read()
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
            http.request(request.method, replica + request.path_qs, headers=headers, data=body) as found,
        ):
            kept = [(name, value) for name, value in found.headers.items() if name.lower() == "set-cookie"]
            return web.Response(status=found.status, body=await found.read(), headers=CIMultiDict(kept))


@asynccontextmanager
async def sticky_proxy(*replicas: str) -> AsyncIterator[StickyProxy]:
    proxy = StickyProxy(replicas)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    async with serving(app) as proxy.url:
        yield proxy
        proxy.cut_held()
