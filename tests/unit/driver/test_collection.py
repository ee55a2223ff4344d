"""How workers start: at a pace, so that a thousand connections are not opened in one turn of the loop."""

from __future__ import annotations

import time
from typing import Any, cast

from rollgym.driver.collection import RAMP_BATCH, RAMP_PAUSE_S, Collection

NOTHING = cast(Any, None)
WORKERS = 10 * RAMP_BATCH


class _Started(Collection):
    """Notes when each worker starts."""

    def __init__(self) -> None:
        rows = cast(Any, range(WORKERS))
        super().__init__(rows, NOTHING, NOTHING, NOTHING, NOTHING, workers=WORKERS, max_attempts=1)
        self.started_at: list[float] = []

    async def _work(self) -> None:
        self.started_at.append(time.monotonic())


async def test_workers_start_a_batch_at_a_time() -> None:
    """None before its time; how late they come is the machine's."""
    collection, begun_at = _Started(), time.monotonic()
    await collection.run()
    assert len(collection.started_at) == WORKERS
    for number, started_at in enumerate(collection.started_at):
        assert started_at - begun_at >= number // RAMP_BATCH * RAMP_PAUSE_S
