"""What `/verify` answers: a reward that is a measurement, or a mask that says why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import InvalidReward
from rollgym.resources.rewards import RewardTally

OWN_FIELDS = frozenset(
    {
        "responses_create_params",
        "response",
        "reward",
        "mask_sample",
        "failure_kind",
        "failure_reason",
        "agent_ref",
        "num_steps",
        "episode_done",
    }
)


@dataclass(frozen=True)
class Failure:
    """Why a session has no reward that measures anything: a word of the failure vocabulary, and a sentence."""

    kind: str
    reason: str


@dataclass(frozen=True)
class Verification:
    """The result for one session, the same however often it is asked for.

    `masked`: the reward is no measurement. `invalid`: the episode went well, but what it gave is no reward at all.
    A failure beside an unmasked reward is told and changes nothing.
    """

    reward: float = 0.0
    masked: bool = False
    failure: Failure | None = None
    invalid: InvalidReward | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        if self.invalid is not None:
            return "invalid_reward"
        return "masked" if self.masked else "scored"

    def body(self, request: VerifyBody) -> bytes:
        """The answer's JSON: what the request said, and the verdict on it."""
        own = {
            "reward": self.reward,
            "mask_sample": self.masked,
            "failure_kind": self.failure.kind if self.failure else None,
            "failure_reason": self.failure.reason if self.failure else None,
            **self.metrics,
        }
        return (
            b'{"responses_create_params":'
            + (bytes(request.responses_create_params) or b"null")
            + b',"response":'
            + (bytes(request.response) or b"null")
            + b","
            + jsonx.dumps(own)[1:]
        )


class VerifyBody(msgspec.Struct):
    """What `/verify` reads of its body; the rest of the row is not looked at."""

    responses_create_params: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


def verification(
    tally: RewardTally, failure: Failure | None, *, steps: int, done: bool, metadata: bytes | None
) -> Verification:
    """The verdict on an episode.

    A failure masks, unless the episode had ended before it and its reward is finite: that one is real. A session that
    was reclaimed is masked however it stood.
    """
    metrics = {"num_steps": steps, "episode_done": int(done), **_numbers(metadata)}
    measured = done and (failure is None or failure.kind != "session_reclaimed")
    if failure is not None and not measured:
        return Verification(masked=True, failure=failure, metrics=metrics)
    try:
        return Verification(reward=tally.total(), failure=failure, metrics=metrics)
    except InvalidReward as error:
        if failure is not None:
            return Verification(masked=True, failure=failure, metrics=metrics)
        return Verification(invalid=error, failure=Failure(error.code, error.message), metrics=metrics)


def _numbers(metadata: bytes | None) -> dict[str, float]:
    """The finite numbers at the top of an environment's metadata, under names that are not ours."""
    if metadata is None:
        return {}
    try:
        loaded: Any = jsonx.loads(metadata)
    except ValueError:
        return {}
    if not isinstance(loaded, dict):
        return {}
    return {
        name: value
        for name, value in loaded.items()
        if isinstance(value, int | float)
        and math.isfinite(_float(value))
        and name not in OWN_FIELDS
        and not name.startswith(("_", "ng_"))
    }


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
