"""What is dispatched next, and whether there is time for it: first attempts in order, then retries when due."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import random
import time
from collections.abc import Iterator, Mapping

import msgspec

from rollgym.driver.materialized import MaterializedRows
from rollgym.driver.outcomes import Attempt
from rollgym.driver.rollout_perf import DispatchLatencyTracker

MAX_BACKOFF_S = 30.0


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """An attempt and since when (monotonic seconds) it could have been dispatched."""

    attempt: Attempt
    due_at: float


class DispatchQueue:
    """Attempts of one run. Every first attempt goes before any retry, so that no hanging task starves the others."""

    def __init__(
        self, rows: MaterializedRows, fresh: Iterator[int], *, prior_attempts: Mapping[int, int], backoff_s: float
    ) -> None:
        """`fresh` yields the positions to start; `prior_attempts` are the failures that earlier starts recorded."""
        self._rows, self._fresh, self._prior = rows, fresh, prior_attempts
        self._backoff_s = backoff_s
        self._retries: list[tuple[float, int, Attempt]] = []
        self._waiting = 0
        self._closed = asyncio.Event()
        self._began_at = time.monotonic()

    async def take(self) -> Dispatch | None:
        """The next attempt, waiting for a retry's time where need be; None when there is nothing left to wait for.

        A caller that gets None may leave: whoever is in flight comes back for its own retry.
        """
        while not self._closed.is_set():
            for position in self._fresh:
                attempt = Attempt(position, self._rows.key(position), self._prior.get(position, 0))
                return Dispatch(attempt, self._began_at)
            if not self._retries:
                return None
            due_at = self._retries[0][0]
            wait_s = due_at - time.monotonic()
            if wait_s <= 0:
                return Dispatch(heapq.heappop(self._retries)[2], due_at)
            if self._waiting >= len(self._retries):
                return None
            await self._wait(wait_s)
        return None

    async def _wait(self, seconds: float) -> None:
        self._waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closed.wait()
        finally:
            self._waiting -= 1

    def retry(self, attempt: Attempt, *, patience: float = 1.0) -> None:
        """Queue the next attempt of a rollout, after a jittered back-off that doubles with each attempt.

        `patience` multiplies it: a server that is restarting needs more time than a request that failed.
        """
        backoff_s = min(patience * self._backoff_s * 2**attempt.number, MAX_BACKOFF_S) * random.uniform(1.0, 1.5)
        following = Attempt(attempt.position, attempt.key, attempt.number + 1)
        heapq.heappush(self._retries, (time.monotonic() + backoff_s, attempt.position, following))

    def close(self) -> None:
        """Hand out nothing more; whoever waits is woken."""
        self._closed.set()

    def undispatched(self) -> Iterator[Attempt]:
        """What a closed queue still held, fresh or to be tried again."""
        for position in self._fresh:
            yield Attempt(position, self._rows.key(position), self._prior.get(position, 0))
        while self._retries:
            yield heapq.heappop(self._retries)[2]


class DispatchBudget:
    """Whether a rollout may still be started: enough of the budget is left for it to finish."""

    def __init__(self, budget_s: float | None, margin_s: float | None, latency: DispatchLatencyTracker) -> None:
        self._budget_s, self._margin_s, self._latency = budget_s, margin_s, latency
        self._began_at = time.monotonic()

    @property
    def left_s(self) -> float | None:
        """Seconds left, None without a budget."""
        return None if self._budget_s is None else self._budget_s - (time.monotonic() - self._began_at)

    def allows_start(self) -> bool:
        """Asked before every dispatch, once its slot is free. A budget of 0 is spent from the start."""
        left_s = self.left_s
        if left_s is None:
            return True
        margin_s = self._latency.drain_margin(self._margin_s)
        return left_s > 0 and left_s >= (margin_s or 0.0)
