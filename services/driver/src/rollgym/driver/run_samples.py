"""A run's vital signs over time: `<stem>_samples.jsonl`, one short line every two seconds, for whoever asks later.

What the journal tells is not repeated: here is the process, there are the rollouts. A sample that cannot be written is
no reason to stop a run: sampling ends, the run goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from rollgym.common.errors import ArtifactError
from rollgym.common.gc_tuning import GENERATIONS
from rollgym.common.logs import get_logger
from rollgym.driver.artifacts.lines import LineAppender
from rollgym.driver.background import repeatedly

INTERVAL_S = 2.0

log = get_logger(__name__)


class Sample(msgspec.Struct, gc=False):
    """One line. `at` is in seconds since the epoch; the rest is since the last sample, but for `in_flight` (now)."""

    at: float
    in_flight: int
    lag_max_ms: float
    lag_mean_ms: float
    gc_pause_max_ms: float
    gc_pause_sum_ms: float
    gc_collections: tuple[int, ...]
    """By generation."""


_encoder = msgspec.json.Encoder()


class RunSamples:
    """Gathers between two samples. `on_lag` and `on_pause` are called often and must stay cheap."""

    def __init__(self, path: Path, in_flight: Callable[[], int]) -> None:
        self._path = path
        self._in_flight = in_flight
        self._reset()

    def _reset(self) -> None:
        self._lags = 0
        self._lag_sum_s = self._lag_max_s = 0.0
        self._pause_sum_s = self._pause_max_s = 0.0
        self._collections = [0] * GENERATIONS

    def on_lag(self, lag_s: float) -> None:
        self._lags += 1
        self._lag_sum_s += lag_s
        self._lag_max_s = max(self._lag_max_s, lag_s)

    def on_pause(self, generation: int, pause_s: float) -> None:
        self._collections[generation] += 1
        self._pause_sum_s += pause_s
        self._pause_max_s = max(self._pause_max_s, pause_s)

    def take(self) -> Sample:
        """The sample since the last one."""
        sample = Sample(
            at=round(time.time(), 3),
            in_flight=self._in_flight(),
            lag_max_ms=_ms(self._lag_max_s),
            lag_mean_ms=_ms(self._lag_sum_s / self._lags) if self._lags else 0.0,
            gc_pause_max_ms=_ms(self._pause_max_s),
            gc_pause_sum_ms=_ms(self._pause_sum_s),
            gc_collections=tuple(self._collections),
        )
        self._reset()
        return sample

    @contextlib.asynccontextmanager
    async def sampling(self, interval_s: float = INTERVAL_S) -> AsyncIterator[None]:
        """Append a sample at the start, every `interval_s` while the block runs, and one at its end."""
        try:
            appender = await asyncio.to_thread(LineAppender, self._path)
        except ArtifactError as error:
            log.warning("no samples of this run are kept", problem=error.message)
            yield
            return
        broken = False

        async def write() -> None:
            nonlocal broken
            if broken:
                return
            try:
                await asyncio.to_thread(appender.append, _encoder.encode(self.take()))
            except ArtifactError as error:
                broken = True
                log.warning("no more samples of this run are kept", problem=error.message)

        try:
            await write()
            async with repeatedly(write, interval_s, "run-samples"):
                yield
        finally:
            await asyncio.shield(write())
            appender.close()


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
