"""The loop's lag: a stall is seen for as long as it was, and what follows is small again."""

import asyncio
import time

from rollgym.common.loop_lag import watching_loop_lag
from waiting import eventually


async def test_a_stall_is_observed_and_what_follows_is_not_it() -> None:
    seen: list[float] = []
    async with watching_loop_lag(seen.append, interval_s=0.005):
        await eventually(lambda: len(seen) > 2)
        time.sleep(0.3)  # noqa: ASYNC251 - the stall itself
        await eventually(lambda: max(seen) > 0.25)
        at = len(seen)
        await eventually(lambda: len(seen) > at + 5)
    assert min(seen[at:]) < 0.1
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "loop-lag"]
