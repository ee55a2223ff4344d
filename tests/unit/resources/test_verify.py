"""Verification: when a reward counts, when it is masked, and what the answer says."""

import json

import msgspec
import pytest

from rollgym.resources.rewards import RewardMode, RewardTally
from rollgym.resources.verify import Failure, VerifyBody, verification

LOST, RECLAIMED = Failure("env_lost", "gone"), Failure("session_reclaimed", "idle")
BUSY = Failure("env_busy", "never opened")


def tally(*rewards: bytes) -> RewardTally:
    found = RewardTally(RewardMode.SUM)
    for raw in rewards:
        found.add(raw)
    return found


MASKING = {
    "played to its end": (tally(b"0.5"), None, True, "scored", 0.5),
    "stopped by the agent before its end": (tally(b"0.5"), None, False, "scored", 0.5),
    "lost before its end": (tally(b"0.5"), LOST, False, "masked", 0.0),
    "lost after its end": (tally(b"0.5"), LOST, True, "scored", 0.5),
    "lost after its end, without a reward": (tally(), LOST, True, "masked", 0.0),
    "reclaimed before its end": (tally(b"0.5"), RECLAIMED, False, "masked", 0.0),
    "reclaimed after its end": (tally(b"0.5"), RECLAIMED, True, "masked", 0.0),
    "never opened": (tally(), BUSY, False, "masked", 0.0),
    "no reward": (tally(), None, True, "invalid_reward", 0.0),
    "an invalid reward": (tally(b'"nan"'), None, True, "invalid_reward", 0.0),
}


@pytest.mark.parametrize("name", MASKING)
def test_masking(name: str) -> None:
    rewards, failure, done, outcome, reward = MASKING[name]
    result = verification(rewards, failure, steps=3, done=done, metadata=None)
    assert (result.outcome, result.reward) == (outcome, reward)
    assert result.masked is (outcome == "masked")


def test_a_failure_beside_a_real_reward_is_told() -> None:
    result = verification(tally(b"1"), LOST, steps=1, done=True, metadata=None)
    answer = json.loads(result.body(VerifyBody()))
    assert (answer["reward"], answer["mask_sample"], answer["failure_kind"]) == (1.0, False, "env_lost")


def test_the_answer_echoes_the_request_and_adds_the_verdict() -> None:
    row = b'{"responses_create_params": {"input": [1, 2]}, "response": {"id": "r", "x": 1e2}, "more": 1}'
    result = verification(tally(b"0.25"), None, steps=2, done=True, metadata=b'{"cost": 12.5, "won": true}')
    text = result.body(msgspec.json.decode(row, type=VerifyBody))
    assert json.loads(text) == {
        "responses_create_params": {"input": [1, 2]},
        "response": {"id": "r", "x": 100.0},
        "reward": 0.25,
        "mask_sample": False,
        "failure_kind": None,
        "failure_reason": None,
        "num_steps": 2,
        "episode_done": 1,
        "cost": 12.5,
        "won": True,
    }
    assert b'{"id": "r", "x": 1e2}' in text  # carried as it came


@pytest.mark.parametrize(
    "metadata",
    [b'{"reward": 9}', b'{"mask_sample": true}', b'{"_ng_task_index": 1}', b'{"ng_perf": 1}', b'{"text": "x"}', b"[1]",
     b'{"num_steps": 7}', b'{"huge": 1' + b"0" * 400 + b"}", b'{"nested": {"a": 1}}'],
)  # fmt: skip
def test_metadata_never_replaces_our_fields_and_only_its_numbers_count(metadata: bytes) -> None:
    plain = verification(tally(b"1"), None, steps=2, done=True, metadata=None)
    assert verification(tally(b"1"), None, steps=2, done=True, metadata=metadata) == plain
