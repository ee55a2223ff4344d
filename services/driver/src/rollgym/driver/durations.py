"""Quantiles of durations in bounded memory: exact up to 10,000 values, then within 1%."""

from __future__ import annotations

import bisect
import math
from collections import Counter

EXACT_DURATIONS = 10_000
_BUCKETS_PER_E = 200  # a bucket spans a factor of exp(1/200): half a percent
_LEAST_S = 1e-9


class Durations:
    """Durations in seconds. Adding costs microseconds; a quantile, too, while exact."""

    def __init__(self) -> None:
        self._ordered: list[float] = []
        self._buckets: Counter[int] | None = None
        self.count = 0
        self.total_s = 0.0
        self.max_s = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        self.max_s = max(self.max_s, seconds)
        if self._buckets is not None:
            self._buckets[_bucket(seconds)] += 1
            return
        bisect.insort(self._ordered, seconds)
        if len(self._ordered) > EXACT_DURATIONS:
            self._buckets = Counter(map(_bucket, self._ordered))
            self._ordered = []

    @property
    def mean_s(self) -> float | None:
        return self.total_s / self.count if self.count else None

    def quantile(self, q: float) -> float | None:
        """The q-quantile in seconds, by linear interpolation while exact; None while empty."""
        if self.count == 0:
            return None
        if self._buckets is not None:
            return self._from_buckets(self._buckets, q)
        position = (len(self._ordered) - 1) * q
        low = int(position)
        high = min(low + 1, len(self._ordered) - 1)
        return self._ordered[low] + (self._ordered[high] - self._ordered[low]) * (position - low)

    def _from_buckets(self, buckets: Counter[int], q: float) -> float:
        rank, below = (self.count - 1) * q, 0
        if rank >= self.count - 1:
            return self.max_s
        for bucket in sorted(buckets):
            below += buckets[bucket]
            if below > rank:
                return min(math.exp((bucket + 0.5) / _BUCKETS_PER_E), self.max_s)
        return self.max_s


def _bucket(seconds: float) -> int:
    return math.floor(math.log(max(seconds, _LEAST_S)) * _BUCKETS_PER_E)
