"""How workers start: at a pace, so that a thousand connections are not opened in one turn of the loop."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any, cast

from rollgym.driver.collection import RAMP_BATCH, RAMP_PAUSE_S, Collection

NOTHING = cast(Any, None)
WORKERS = 10 * RAMP_BATCH
STALL_S = 0.05


def _hold_the_loop(seconds: float) -> None:
    over_at = time.monotonic() + seconds
    while time.monotonic() < over_at:
        pass


class _Started(Collection):
    """Notes when each worker starts; the one numbered `stalls_at` holds the loop."""

    def __init__(self, stalls_at: int | None = None) -> None:
        rows = cast(Any, range(WORKERS))
        super().__init__(rows, NOTHING, NOTHING, NOTHING, NOTHING, workers=WORKERS, max_attempts=1)
        self.stalls_at = stalls_at
        self.started_at: list[float] = []

    async def _work(self) -> None:
        if len(self.started_at) == self.stalls_at:
            _hold_the_loop(STALL_S)
        self.started_at.append(time.monotonic())


async def test_workers_start_a_batch_at_a_time() -> None:
    collection, begun_at = _Started(), time.monotonic()
    await collection.run()
    assert len(collection.started_at) == WORKERS
    for number, started_at in enumerate(collection.started_at):
        assert started_at - begun_at >= number // RAMP_BATCH * RAMP_PAUSE_S


async def test_small_delays_do_not_add_up() -> None:
    """On a loop that comes round four times a pause, each pause by itself would take a quarter more or a half."""

    async def busy() -> None:
        while True:
            _hold_the_loop(RAMP_PAUSE_S / 4)
            await asyncio.sleep(0)

    other, took_s = asyncio.create_task(busy()), math.inf
    for _ in range(20):  # the machine may have its own delays
        collection = _Started()
        await collection.run()
        took_s = min(took_s, collection.started_at[-1] - collection.started_at[0])
    other.cancel()
    pauses = WORKERS / RAMP_BATCH - 1
    assert took_s < pauses * RAMP_PAUSE_S * 1.15


async def test_a_stall_is_not_caught_up_with() -> None:
    collection = _Started(stalls_at=RAMP_BATCH - 1)
    await collection.run()
    stalled_until = collection.started_at[RAMP_BATCH - 1]
    for number, started_at in enumerate(collection.started_at[2 * RAMP_BATCH :]):
        assert started_at - stalled_until >= number // RAMP_BATCH * RAMP_PAUSE_S
