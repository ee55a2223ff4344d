"""Sessions do not outlive the client that seeded them and said that it was there, however it ended."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from integration.resources.env_server import EnvServer, env_server, observation
from integration.resources.resources_server import ROW, Resources, Rollout, resources
from waiting import eventually

OWNER = "X-Rollgym-Owner"
NAME = "X-Resources-Session-Id"


@asynccontextmanager
async def there(found: Resources, owner: str) -> AsyncIterator[asyncio.StreamReader]:
    """`owner` holds a request while the block runs; then its connection breaks."""
    parts = urlsplit(found.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"POST /owners/{owner} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    before = len(found.server.owners)
    await eventually(lambda: len(found.server.owners) > before)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def seeded(found: Resources, **headers: str) -> Rollout:
    answer = await found.client.post("/seed_session", json=ROW, headers=headers)
    cookie = answer.headers.get("set-cookie", "").split(";")[0]
    found.client.cookies.clear()
    return Rollout(found.client, answer, {"cookie": cookie})


async def test_what_an_owner_seeded_ends_with_it_and_nothing_else_does() -> None:
    async with env_server() as env, resources(env.url, owner_grace_s=0.1) as found:
        other = await found.opened()
        async with there(found, "a"):
            own = [await seeded(found, **{OWNER: "a"}) for _ in range(3)]
            assert env.stats.active == 4
        await eventually(lambda: env.stats.active == 1)
        refused = await own[0].call()
        assert (refused.status_code, refused.json()["code"]) == (410, "session_reclaimed")
        assert (await own[1].verify()).json()["failure_kind"] == "session_reclaimed"
        assert found.metric('rollgym_sessions_closed_total{reason="abandoned"}') == 3
        assert (await other.call()).status_code == 200
        await other.close()
        await found.nothing_left()


@pytest.mark.parametrize("busy_with", ["reset", "step"])
async def test_an_owner_that_is_gone_leaves_no_session_in_the_midst_of_an_answer(busy_with: str) -> None:
    async with env_server() as env, resources(env.url, owner_grace_s=0.1) as found:
        async with there(found, "a"):
            waiting, release = await in_the_midst(found, env, busy_with)
        waiting.cancel()  # with its process all of an owner's connections end
        await found.nothing_left()
        release.set()
        await eventually(lambda: env.stats.active == 0)


@pytest.mark.parametrize("busy_with", ["reset", "step"])
async def test_an_owner_is_there_while_an_answer_to_it_takes_its_time(busy_with: str) -> None:
    async with env_server() as env, resources(env.url, owner_grace_s=0.5) as found:
        await seeded(found, **{OWNER: "later"})
        async with there(found, "a"):
            quiet = await seeded(found, **{OWNER: "a"})
            waiting, release = await in_the_midst(found, env, busy_with)
        async with there(found, "later"):  # and so gone later than the other would be
            pass
        await eventually(lambda: found.metric('rollgym_sessions_closed_total{reason="abandoned"}') == 1)
        release.set()
        assert await asyncio.wait_for(waiting, 5) == 200
        assert (await quiet.call()).status_code == 200
        await found.nothing_left()


@pytest.mark.parametrize("use", ["seed", "call"])
async def test_an_owner_that_goes_on_using_its_sessions_is_there(use: str) -> None:
    async with env_server() as env, resources(env.url, owner_grace_s=0.5) as found:
        env.on_step = going_on
        async with there(found, "a"):
            rollout, quiet = await seeded(found, **{OWNER: "a"}), await seeded(found, **{OWNER: "a"})
        ends_at = time.monotonic() + 1.5
        while time.monotonic() < ends_at:
            used = await (rollout.call() if use == "call" else told(seeded(found, **{OWNER: "a"})))
            assert (used if isinstance(used, int) else used.status_code) == 200
            await asyncio.sleep(0.05)
        assert (await quiet.call()).status_code == 200
        await found.nothing_left()
        assert (await quiet.call()).status_code == 410


async def test_a_stop_answers_who_holds_a_request() -> None:
    async with env_server() as env, resources(env.url) as found, there(found, "a") as reader:
        found.server.stop_intake()
        assert b" 204 " in await asyncio.wait_for(reader.readline(), 5)


async def test_a_row_may_be_seeded_under_a_name_and_closed_by_it() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await seeded(found, **{NAME: "mine"})
        assert rollout.seed["observation"] is not None
        assert rollout.seed["tools"]
        await named_close(found, "mine")
        await found.nothing_left()
        again = await seeded(found, **{NAME: "mine"})
        assert again.answer.status_code == 409


async def test_a_close_by_name_keeps_a_late_seed_out() -> None:
    async with env_server() as env, resources(env.url) as found:
        await named_close(found, "late")
        assert (await seeded(found, **{NAME: "late"})).answer.status_code == 409
        assert env.stats.opens == 0
        await found.nothing_left()


async def test_a_close_by_name_ends_a_session_that_is_opening() -> None:
    async with env_server() as env, resources(env.url) as found:
        asked, release = slow(env, "on_reset")
        seeding = asyncio.create_task(told(seeded(found, **{NAME: "mine"})))
        await asyncio.wait_for(asked.wait(), 5)
        await named_close(found, "mine")
        await found.nothing_left()
        assert await asyncio.wait_for(seeding, 5) == 410
        release.set()
        await eventually(lambda: env.stats.active == 0)


async def in_the_midst(found: Resources, env: EnvServer, what: str) -> tuple[asyncio.Task[int], asyncio.Event]:
    """A request of the owner `a` that the environment has, and that is answered once the event is set."""
    rollout = await seeded(found, **{OWNER: "a"}) if what == "step" else None
    asked, release = slow(env, f"on_{what}")
    waiting = asyncio.create_task(told(rollout.call() if rollout is not None else seeded(found, **{OWNER: "a"})))
    await asyncio.wait_for(asked.wait(), 5)
    return waiting, release


async def going_on(*_: Any) -> str:
    return observation({})


def slow(env: EnvServer, what: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Such requests are answered late: the first event says that one has come, the second lets it be answered."""
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(*_: Any) -> str:
        asked.set()
        await release.wait()
        return observation({})

    setattr(env, what, answer)
    return asked, release


async def told(work: Awaitable[Rollout | httpx.Response]) -> int:
    """The status that it was answered with."""
    found = await work
    return (found.answer if isinstance(found, Rollout) else found).status_code


async def named_close(found: Resources, name: str) -> None:
    body = json.dumps({"resources_session_id": name, "episode_id": {"rollout_id": name}})
    answer = await found.client.post("/close_session", content=body)
    assert (answer.status_code, answer.json()) == (200, {"resources_session_id": name})
