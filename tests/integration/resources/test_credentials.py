"""Who may use a session: its cookie, its id, its caller's own id; and nobody else."""

import asyncio
from typing import Any

import httpx
import pytest

from integration.resources.env_server import env_server
from integration.resources.resources_server import ROW, Resources, resources
from rollgym.resources.signing import new_session_id
from waiting import eventually

EPISODE = {"rollout_id": "r1", "attempt": 0}


def seed_of(session_id: str, **change: Any) -> dict[str, Any]:
    task = {"taskset": "t", "task_id": "1"}
    return {"resources_session_id": session_id, "episode_id": EPISODE, "task_id": task, "task_data": ROW, **change}


async def post(found: Resources, path: str, body: Any = None, **headers: str) -> httpx.Response:
    answer = await found.client.post(path, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
    found.client.cookies.clear()
    return answer


async def test_64_rollouts_each_get_their_own_episode() -> None:
    async with env_server(rewards=(0.0, 1.0)) as env, resources(env.url) as found:
        rollouts = await asyncio.gather(*(found.opened(seed=number) for number in range(64)))
        answers = await asyncio.gather(*(rollout.call() for rollout in rollouts))
        assert [answer.json()["observation"]["seed"] for answer in answers] == list(range(64))


async def test_the_session_id_from_the_seed_serves_as_well_as_the_cookie() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        assert (await post(found, "/step", {}, x_session_id=rollout.seed["session_id"])).status_code == 200


async def test_guesses_forgeries_and_nothing_at_all_get_nothing() -> None:
    async with env_server() as env, resources(env.url) as found:
        token = (await found.opened()).headers["cookie"].split("=", 1)[1]
        instance, session_id, signature = token.split(".")
        assert (await post(found, "/step", {})).status_code == 400
        for wrong in (
            new_session_id(),
            "1",
            f"{instance}.{session_id}.{signature[:-1]}0" if signature[-1] != "0" else f"{instance}.{session_id}.x",
            f"{instance}.{new_session_id()}.{signature}",
        ):
            for path in ("/step", "/verify", "/close_session"):
                answer = await post(found, path, {}, x_session_id=wrong)
                assert (answer.status_code, answer.json()["code"]) == (401, "session_unknown")
        assert not env.stats.steps


async def test_a_replay_after_close_is_gone() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        await rollout.close()
        assert [(await rollout.call()).status_code, (await rollout.verify()).status_code] == [410, 410]


async def test_the_wrong_replica_says_so_and_opens_nothing() -> None:
    key = "a-key-that-both-replicas-share"
    async with (
        env_server() as env,
        resources(env.url, signing_key=key) as one,
        resources(env.url, signing_key=key) as two,
    ):
        rollout = await one.opened()
        for path in ("/step", "/verify", "/close_session"):
            answer = await post(two, path, {}, cookie=rollout.headers["cookie"])
            assert (answer.status_code, answer.json()["code"]) == (421, "session_elsewhere")
        assert (await rollout.call()).status_code == 200
        assert env.stats.opens == 1


async def test_the_listing_lets_nobody_use_a_session() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        listing = (await found.client.get("/sessions")).json()
        assert rollout.seed["session_id"] not in str(listing)
        (listed,) = listing["sessions"]
        assert (listed["env"], listed["state"], listed["steps"]) == ("env", "open", 0)
        assert (await post(found, "/step", {}, x_session_id=listed["session"])).status_code == 401


async def test_ten_equal_seeds_at_once_are_one_session() -> None:
    async with env_server() as env, resources(env.url) as found:
        answers = await asyncio.gather(*(post(found, "/seed_session", seed_of("s1")) for _ in range(10)))
        assert {answer.text for answer in answers} == {'{"resources_session_id":"s1"}'}
        assert len({answer.headers["set-cookie"] for answer in answers}) == 1
        assert env.stats.opens == 1


@pytest.mark.parametrize(
    "change",
    [
        {"episode_id": {"rollout_id": "r1", "attempt": 1}},
        {"task_data": {**ROW, "seed": 9}},
    ],
    ids=["another episode", "another task"],
)
async def test_the_same_id_for_something_else_is_a_conflict(change: dict[str, Any]) -> None:
    async with env_server() as env, resources(env.url) as found:
        await post(found, "/seed_session", seed_of("s1"))
        answer = await post(found, "/seed_session", seed_of("s1", **change))
        assert (answer.status_code, answer.json()["code"]) == (409, "session_conflict")


async def test_a_close_by_the_callers_id_and_every_seed_after_it() -> None:
    async with env_server() as env, resources(env.url) as found:
        close = {"resources_session_id": "s1", "episode_id": EPISODE}
        await post(found, "/seed_session", seed_of("s1"))
        for said in ("closed", "already closed"):
            answer = await post(found, "/close_session", close)
            assert (answer.status_code, answer.json()) == (200, {"resources_session_id": "s1"})
            assert answer.headers["x-rollgym-close"] == said
        assert (await post(found, "/seed_session", seed_of("s1"))).status_code == 409
        other = {**close, "episode_id": {"rollout_id": "r2"}}
        assert (await post(found, "/close_session", other)).status_code == 409
        await found.nothing_left()


async def test_the_callers_id_of_a_live_session_is_not_forgotten_however_many_came_after_it() -> None:
    async with env_server() as env, resources(env.url, remembered_sessions=2) as found:
        await post(found, "/seed_session", seed_of("long"))
        for number in range(5):
            await post(found, "/seed_session", seed_of(f"short {number}"))
            await post(found, "/close_session", {"resources_session_id": f"short {number}", "episode_id": EPISODE})
        assert (await post(found, "/seed_session", seed_of("long"))).status_code == 200
        assert env.stats.opens == 6
        answer = await post(found, "/close_session", {"resources_session_id": "long", "episode_id": EPISODE})
        assert answer.headers["x-rollgym-close"] == "closed"
        assert (await post(found, "/seed_session", seed_of("short 0"))).status_code == 200  # over for long: forgotten
        await post(found, "/close_session", {"resources_session_id": "short 0", "episode_id": EPISODE})
        await found.nothing_left()


async def test_a_close_that_comes_first_keeps_its_seed_out() -> None:
    async with env_server() as env, resources(env.url) as found:
        answer = await post(found, "/close_session", {"resources_session_id": "late", "episode_id": EPISODE})
        assert (answer.status_code, answer.json()) == (200, {"resources_session_id": "late"})
        assert (await post(found, "/seed_session", seed_of("late"))).status_code == 409
        assert env.stats.opens == 0


async def test_a_close_during_the_opening_ends_it() -> None:
    async with env_server(refusing=True) as env, resources(env.url, patience_s=30) as found:
        seeding = asyncio.create_task(post(found, "/seed_session", seed_of("s1")))
        await eventually(lambda: env.stats.refused)
        await post(found, "/close_session", {"resources_session_id": "s1", "episode_id": EPISODE})
        assert (await seeding).status_code == 410
        assert (await post(found, "/seed_session", seed_of("s1"))).status_code == 409
        await found.nothing_left()


async def test_a_failed_seed_may_be_tried_again_under_its_id() -> None:
    async with env_server(refusing=True) as env, resources(env.url, patience_s=0.2) as found:
        assert (await post(found, "/seed_session", seed_of("s1"))).status_code == 503
        env.refusing = False

        async def opens() -> bool:
            return (await post(found, "/seed_session", seed_of("s1"))).status_code == 200

        assert await eventually(opens)  # a refused server is asked again only after a pause


async def test_a_caller_assigned_session_is_played_by_its_cookie_only() -> None:
    async with env_server(rewards=(0.5,)) as env, resources(env.url) as found:
        seeded = await post(found, "/seed_session", seed_of("s1"))
        assert (await post(found, "/step", {}, x_session_id="s1")).status_code == 401
        cookie = seeded.headers["set-cookie"].split(";")[0]
        assert (await post(found, "/step", {}, cookie=cookie)).status_code == 200
        assert (await post(found, "/verify", ROW, cookie=cookie)).json()["reward"] == 0.5
        assert (await post(found, "/seed_session", seed_of("s1"))).status_code == 409
