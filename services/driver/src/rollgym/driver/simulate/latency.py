"""How long a simulated agent or model takes: a distribution, drawn from by key: the same rollout, the same time."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Self

FORMS = "fixed:SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA"
_ARITY = {"fixed": 1, "uniform": 2, "lognormal": 2}


@dataclass(frozen=True)
class Latency:
    """One of `fixed` (seconds), `uniform` (low, high in seconds), `lognormal` (median in seconds, sigma of its log)."""

    kind: str
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``uniform:0.2:1.0`` and its like. Raises ValueError that says what is allowed."""
        kind, *words = text.split(":")
        if kind not in _ARITY or len(words) != _ARITY[kind]:
            raise ValueError(f"{text!r} is no latency: use {FORMS}")
        try:
            numbers = tuple(float(word) for word in words)
        except ValueError:
            raise ValueError(f"{text!r} has something else than numbers: use {FORMS}") from None
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise ValueError(f"{text!r}: seconds and sigma are finite and not negative")
        if kind == "uniform" and numbers[0] > numbers[1]:
            raise ValueError(f"{text!r}: the low end is above the high end")
        if kind == "lognormal" and numbers[0] == 0:
            raise ValueError(f"{text!r}: a lognormal median is above 0")
        return cls(kind, numbers)

    def draw(self, rng: random.Random) -> float:
        """Seconds of one call."""
        if self.kind == "fixed":
            return self.numbers[0]
        if self.kind == "uniform":
            return rng.uniform(*self.numbers)
        median_s, sigma = self.numbers
        return median_s * math.exp(rng.gauss(0.0, sigma))

    @property
    def mean_s(self) -> float:
        """The mean of the distribution, in seconds."""
        if self.kind == "fixed":
            return self.numbers[0]
        if self.kind == "uniform":
            return sum(self.numbers) / 2
        median_s, sigma = self.numbers
        return float(median_s * math.exp(sigma**2 / 2))

    def __str__(self) -> str:
        return ":".join([self.kind, *(f"{number:g}" for number in self.numbers)])


def rng_of(seed: int, *key: int) -> random.Random:
    """A generator of its own for what `key` names: the same whatever else was drawn before it."""
    return random.Random(hash((seed, *key)))


@dataclass
class Schedule:
    """When the rollouts of an open loop begin: seeded Poisson arrivals at `rate` a second, counted from the first."""

    rate: float
    rng: random.Random
    _offset_s: float = 0.0
    _begun: bool = False

    def next_offset_s(self) -> float:
        """Seconds after the first rollout at which the next one begins."""
        if self._begun:
            self._offset_s += self.rng.expovariate(self.rate)
        self._begun = True
        return self._offset_s
