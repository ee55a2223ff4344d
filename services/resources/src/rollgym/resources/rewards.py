"""One reward out of an episode's many: which values count, and how they add up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from rollgym.common.errors import InvalidReward


class RewardMode(StrEnum):
    """How the rewards of an episode make one: their sum, the last of them, or the greatest."""

    SUM = "sum"
    LAST = "last"
    MAX = "max"


def parse_reward(raw: bytes | None) -> float | None:
    """The number in a frame's `reward`, given as the JSON text it came as; None for absent or null.

    Finite numbers pass, booleans become 1.0 and 0.0. Raises ValueError for anything else: text, NaN, infinities,
    and numbers past the range of a float.
    """
    if raw is None or raw == b"null":
        return None
    if raw == b"true":
        return 1.0
    if raw == b"false":
        return 0.0
    if raw[:1] not in b"-0123456789":
        raise ValueError(f"a reward must be a finite number, not {_shown(raw)}")
    value = float(raw)
    if not math.isfinite(value):
        raise ValueError(f"a reward must be a finite number, not {_shown(raw)}")
    return value


def _shown(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= 40 else f"{text[:40]}… ({len(text)} characters)"


@dataclass(slots=True)
class RewardTally:
    """The rewards of one episode so far."""

    mode: RewardMode
    value: float | None = None
    invalid: str | None = field(default=None)

    def add(self, raw: bytes | None) -> None:
        """Take one frame's reward, as its JSON text. An invalid one spoils the episode, and is kept as the reason."""
        try:
            reward = parse_reward(raw)
        except ValueError as error:
            self.invalid = self.invalid or str(error)
            return
        if reward is None:
            return
        if self.value is None or self.mode is RewardMode.LAST:
            self.value = reward
        elif self.mode is RewardMode.SUM:
            self.value += reward
        else:
            self.value = max(self.value, reward)

    def total(self) -> float:
        """The episode's reward. Raises InvalidReward where it has none that is a finite number."""
        if self.invalid is not None:
            raise InvalidReward(self.invalid)
        if self.value is None:
            raise InvalidReward("the episode had no finite reward: no frame carried a number")
        if not math.isfinite(self.value):
            raise InvalidReward(f"the episode's rewards add up to {self.value}, which is no finite number")
        return self.value
