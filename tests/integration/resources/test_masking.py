"""What a client is told where a reward is no measurement, in each of the ways it may ask for."""

from typing import Any

import pytest

from integration.resources.env_server import EnvServer, Session, env_server, observation
from integration.resources.resources_server import Resources, Rollout, resources
from waiting import eventually


async def lost(env: EnvServer, found: Resources) -> Rollout:
    async def drop(session: Session, _: Any) -> None:
        session.abort()

    rollout = await found.opened()
    env.on_step = drop
    await rollout.call()
    return rollout


async def reclaimed(_: EnvServer, found: Resources) -> Rollout:
    rollout = await found.opened()
    await eventually(lambda: len(found.server.book) == 0)
    return rollout


async def never_opened(env: EnvServer, found: Resources) -> Rollout:
    env.refusing = True
    return await found.seeded()


WAYS = {
    "lost": (lost, "env_lost"),
    "reclaimed": (reclaimed, "session_reclaimed"),
    "never opened": (never_opened, "env_busy"),
}


@pytest.mark.parametrize("name", WAYS)
async def test_a_masked_verify_is_a_200_that_says_so(name: str) -> None:
    spoil, kind = WAYS[name]
    async with env_server() as env, resources(env.url, idle_timeout_s=0.3, patience_s=0.3) as found:
        rollout = await spoil(env, found)
        first, second = await rollout.verify(), await rollout.verify()
        assert (first.status_code, first.content) == (200, second.content)
        verdict = first.json()
        assert (verdict["mask_sample"], verdict["reward"], verdict["failure_kind"]) == (True, 0.0, kind)
        assert verdict["failure_reason"]
        assert (verdict["responses_create_params"], verdict["response"]["id"]) == ({"input": []}, "resp_1")
        assert found.metric('rollgym_verify_total{outcome="masked"}') == 1
        await found.nothing_left()


@pytest.mark.parametrize("name", WAYS)
async def test_masked_as_error_is_a_503_that_no_transport_retries(name: str) -> None:
    spoil, kind = WAYS[name]
    settings: dict[str, Any] = {"idle_timeout_s": 0.3, "patience_s": 0.3, "masked_as_error": True}
    async with env_server() as env, resources(env.url, **settings) as found:
        rollout = await spoil(env, found)
        answer = await rollout.verify()
        assert (answer.status_code, answer.headers["x-rollgym-masked"]) == (503, kind)
        assert "retry-after" not in answer.headers
        assert (answer.json()["code"], answer.json()["data"]["failure_kind"]) == (kind, kind)
        assert answer.json()["message"]
        await found.nothing_left()


async def test_masked_as_error_leaves_real_rewards_alone() -> None:
    async with env_server(rewards=(0.5,)) as env, resources(env.url, masked_as_error=True) as found:
        rollout = await found.opened()
        await rollout.call()
        assert (await rollout.verify()).json()["reward"] == 0.5


async def test_a_failed_seed_may_answer_200_and_leave_it_to_verify() -> None:
    settings: dict[str, Any] = {"patience_s": 0.2, "failed_seed": "mask"}
    async with env_server(refusing=True) as env, resources(env.url, **settings) as found:
        rollout = await found.seeded()
        assert rollout.answer.status_code == 200
        assert rollout.seed["observation"] == {}
        assert (await rollout.call()).status_code == 410
        assert (await rollout.verify()).json()["failure_kind"] == "env_busy"


async def test_a_server_that_is_full_masks_a_later_verify_too() -> None:
    async with env_server() as env, resources(env.url, max_sessions=1) as found:
        first = await found.opened()
        second = await found.seeded()
        assert (second.answer.status_code, second.answer.json()["code"]) == (503, "server_full")
        assert (second.answer.headers["retry-after"], second.answer.headers["connection"]) == ("1", "close")
        assert (await second.verify()).json()["failure_kind"] == "env_busy"
        await first.close()
        await found.nothing_left()
        await found.opened()


INVALID = {
    "text": '"nan"',
    "NaN": "NaN",
    "infinity": "Infinity",
    "minus infinity": "-Infinity",
    "past a float's range": "1e999",
    "400 digits": "1" + "0" * 400,
    "an object": "{}",
    "null all along": "null",
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_reward_is_an_error_and_never_a_zero(name: str) -> None:
    async with env_server() as env, resources(env.url) as found:

        async def odd(_: Session, __: Any) -> str:
            return observation({"x": 1}).replace('"reward": null', f'"reward": {INVALID[name]}')

        env.on_step = odd
        rollout = await found.opened()
        answer = await rollout.call()
        assert (answer.status_code, answer.json()["observation"]) == (200, {"x": 1})
        first, second = await rollout.verify(), await rollout.verify()
        assert (first.status_code, first.json()["code"]) == (502, "invalid_reward")
        assert first.content == second.content
        assert "reward" not in first.json()
        await found.nothing_left()
        assert found.metric('rollgym_verify_total{outcome="invalid_reward"}') == 1


@pytest.mark.parametrize(
    ("mode", "rewards", "total"),
    [
        ("sum", (0.2, 0.3, 0.5), 1.0),
        ("last", (0.2, 0.3, 0.5), 0.5),
        ("last", (0.2, 0.5, 1.0), 1.0),
        ("max", (0.2, 0.9, 0.5), 0.9),
        ("sum", (True, False, True), 2.0),
        ("sum", (-1.0, None, 0.5), -0.5),
    ],
)
async def test_reward_modes(mode: str, rewards: tuple[Any, ...], total: float) -> None:
    async with env_server(rewards=rewards) as env, resources(env.url, reward_mode={"env": mode}) as found:
        rollout = await found.opened()
        for _ in rewards:
            await rollout.call()
        over = await rollout.call()
        assert (over.status_code, len(env.stats.steps)) == (410, len(rewards))
        verdict = (await rollout.verify()).json()
        assert verdict["reward"] == pytest.approx(total)
        assert (verdict["num_steps"], verdict["episode_done"]) == (len(rewards), 1)


async def test_the_environments_numbers_become_metrics() -> None:
    async with env_server() as env, resources(env.url) as found:

        async def measured(_: Session, __: Any) -> str:
            return observation({}, 1.0, True, metadata={"cost": 12.5, "name": "x", "reward": 9})

        env.on_step = measured
        rollout = await found.opened()
        await rollout.call()
        verdict = (await rollout.verify()).json()
        assert (verdict["cost"], verdict["reward"]) == (12.5, 1.0)
        assert "name" not in verdict
