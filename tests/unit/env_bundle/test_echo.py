"""The environment echo: what it is told comes back, right or deliberately wrong."""

from typing import Any

import pytest
from pydantic import ValidationError

from rollgym.common import jsonx
from rollgym.env_bundle import frames
from rollgym.env_bundle.environment import EpisodeError, EpisodeOver, NotReset
from rollgym.env_bundle.environments.echo import Echo
from unit.env_bundle.playing import reset, step


@pytest.fixture
async def echo() -> Echo:
    environment = Echo()
    await reset(environment, seed=7)
    return environment


async def frame(environment: Echo, **action: Any) -> bytes:
    return frames.observation(await environment.act(action))


async def test_message_reward_and_seed_come_back(echo: Echo) -> None:
    answer = await step(echo, message="hi", reward=0.25)
    assert answer == {
        "observation": {"message": "hi", "seed": 7, "step": 1, "padding": ""},
        "reward": 0.25,
        "done": False,
    }


@pytest.mark.parametrize("reward", [True, 3, -0.5, None], ids=repr)
async def test_rewards_keep_their_type(echo: Echo, reward: Any) -> None:
    given = (await step(echo, reward=reward))["reward"]
    assert given == reward
    assert type(given) is type(reward)


async def test_done_ends_the_episode(echo: Echo) -> None:
    assert (await step(echo, done=True))["done"] is True
    with pytest.raises(EpisodeOver):
        await step(echo)


async def test_done_after_ends_it_by_itself(echo: Echo) -> None:
    await reset(echo, done_after=2)
    assert [(await step(echo))["done"] for _ in range(2)] == [False, True]


async def test_a_step_before_reset_is_refused() -> None:
    with pytest.raises(NotReset):
        await step(Echo())


async def test_size_pads_the_observation(echo: Echo) -> None:
    assert len((await step(echo, size=100_000))["observation"]["padding"]) == 100_000


async def test_fail_raises_and_the_episode_goes_on(echo: Echo) -> None:
    with pytest.raises(EpisodeError, match="boom"):
        await step(echo, fail="boom")
    assert (await step(echo))["observation"]["step"] == 1


@pytest.mark.parametrize("raw", ["NaN", "Infinity", "-Infinity", '"0.5"', "1e999", "1" + "0" * 400, "{}"])
async def test_a_raw_reward_is_sent_as_it_is(echo: Echo, raw: str) -> None:
    assert f'"reward":{raw},'.encode() in await frame(echo, raw_reward=raw)


async def test_a_raw_observation_is_sent_as_it_is(echo: Echo) -> None:
    assert b'"observation":"\xff\xfe",' in await frame(echo, raw_observation_hex=b'"'.hex() + "fffe" + "22")


@pytest.mark.parametrize("field", ["observation", "reward", "done"])
async def test_a_field_can_be_left_out(echo: Echo, field: str) -> None:
    data = jsonx.loads(await frame(echo, omit=[field]))["data"]
    assert field not in data
    assert len(data) == 2


async def test_a_lone_surrogate_survives(echo: Echo) -> None:
    assert rb"\ud800" in await frame(echo, message="\ud800")


async def test_unknown_fields_are_refused(echo: Echo) -> None:
    with pytest.raises(ValidationError):
        await step(echo, massage="hi")
