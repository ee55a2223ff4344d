"""Rewards: which values are ones, and how an episode's add up."""

import pytest

from rollgym.common.errors import InvalidReward
from rollgym.resources.rewards import RewardMode, RewardTally, parse_reward


@pytest.mark.parametrize(
    ("raw", "reward"),
    [
        (None, None), (b"null", None), (b"0", 0.0), (b"1", 1.0), (b"-0.25", -0.25), (b"1e3", 1000.0), (b"true", 1.0),
        (b"false", 0.0), (b"9007199254740993", 9007199254740992.0),
    ],
)  # fmt: skip
def test_values_that_pass(raw: bytes | None, reward: float | None) -> None:
    assert parse_reward(raw) == reward


@pytest.mark.parametrize(
    "raw",
    [b'"nan"', b'"1.0"', b"[1]", b"{}", b"1e999", b"-1e999", b"1" + b"0" * 400],
    ids=["text nan", "text number", "list", "object", "infinite", "minus infinite", "400 digits"],
)
def test_values_that_are_no_reward(raw: bytes) -> None:
    with pytest.raises(ValueError, match="finite number"):
        parse_reward(raw)


@pytest.mark.parametrize(
    ("mode", "rewards", "total"),
    [
        pytest.param(RewardMode.SUM, [b"0.2", b"0.3", b"0.5"], 1.0, id="steps, summed"),
        pytest.param(RewardMode.LAST, [b"0.2", b"0.3", b"0.5"], 0.5, id="steps, last"),
        pytest.param(RewardMode.LAST, [b"0.2", b"0.5", b"1.0"], 1.0, id="cumulative, last"),
        pytest.param(RewardMode.MAX, [b"0.2", b"0.9", b"0.5"], 0.9, id="max"),
        pytest.param(RewardMode.SUM, [b"0.1"] * 10, 1.0, id="ten tenths"),
        pytest.param(RewardMode.SUM, [None, b"null", b"-2", b"null"], -2.0, id="nulls count for nothing"),
        pytest.param(RewardMode.LAST, [b"0.7", b"null"], 0.7, id="a null at the end is no last reward"),
        pytest.param(RewardMode.MAX, [b"-3", b"-1"], -1.0, id="negative ones"),
        pytest.param(RewardMode.SUM, [b"true", b"true"], 2.0, id="booleans"),
    ],
)
def test_totals(mode: RewardMode, rewards: list[bytes | None], total: float) -> None:
    tally = RewardTally(mode)
    for raw in rewards:
        tally.add(raw)
    assert tally.total() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param([], id="none at all"),
        pytest.param([b"null", None], id="nulls only"),
        pytest.param([b"1.0", b'"nan"'], id="one invalid spoils the rest"),
        pytest.param([b'"x"', b"1.0"], id="a later good one does not mend it"),
        pytest.param([b"1e308", b"1e308"], id="the sum is infinite"),
    ],
)
def test_an_episode_without_a_finite_reward_is_invalid(rewards: list[bytes | None]) -> None:
    tally = RewardTally(RewardMode.SUM)
    for raw in rewards:
        tally.add(raw)
    with pytest.raises(InvalidReward):
        tally.total()
