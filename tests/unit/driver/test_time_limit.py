"""The limit on rollouts: who is cancelled by it, who is not, and that a cancellation of somebody else's stays one."""

import asyncio

import pytest

from rollgym.driver.shared_timer import SharedTimer
from rollgym.driver.time_limit import TimeLimit


async def limited(limit: TimeLimit, work: asyncio.Event) -> str:
    limit.begin()
    try:
        await work.wait()
        return "done"
    except asyncio.CancelledError:
        if not limit.passed():
            raise
        return "timed out"
    finally:
        limit.end()


def uncancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0


async def test_what_takes_too_long_is_stopped_and_its_task_goes_on() -> None:
    assert await limited(TimeLimit(0.01), asyncio.Event()) == "timed out"
    assert uncancelled()
    await asyncio.sleep(0)


async def test_each_task_has_the_whole_time_of_its_own() -> None:
    limit, loop = TimeLimit(0.05), asyncio.get_running_loop()

    async def later(delay: float) -> tuple[str, float]:
        await asyncio.sleep(delay)
        begun = loop.time()
        return await limited(limit, asyncio.Event()), loop.time() - begun

    ended = await asyncio.gather(*(later(number * 0.02) for number in range(4)))
    assert {said for said, _ in ended} == {"timed out"}
    assert min(took for _, took in ended) >= 0.05


async def test_what_ends_in_time_is_left_alone_and_may_begin_again() -> None:
    limit, done = TimeLimit(0.05), asyncio.Event()
    done.set()
    for _ in range(3):
        assert await limited(limit, done) == "done"
    await asyncio.sleep(0.1)
    assert uncancelled()


async def test_without_a_limit_nothing_is_stopped() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, done.set)
    assert await limited(TimeLimit(None), done) == "done"


async def test_somebody_elses_cancellation_is_no_timeout() -> None:
    task = asyncio.create_task(limited(TimeLimit(60.0), asyncio.Event()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_beside_the_limits_stays_one() -> None:
    limit = TimeLimit(0.01)
    task = asyncio.create_task(limited(limit, asyncio.Event()))
    await asyncio.sleep(0)
    limit._cancel(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_swallows_the_limits_cancellation_leaves_no_trace() -> None:
    limit = TimeLimit(0.01)
    limit.begin()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        pass
    finally:
        limit.end()
    assert uncancelled()
    async with asyncio.timeout(5):
        await asyncio.sleep(0)


async def test_a_shared_timer_rings_for_those_still_in_in_order() -> None:
    rung: list[int] = []
    all_rung = asyncio.Event()

    def ring(item: int) -> None:
        rung.append(item)
        if item == 9:
            all_rung.set()

    timer = SharedTimer[int](0.02, ring)
    for item in range(10):
        timer.add(item)
    for item in (0, 3, 8):
        timer.discard(item)
    timer.discard(99)
    async with asyncio.timeout(5):
        await all_rung.wait()
    assert rung == [1, 2, 4, 5, 6, 7, 9]
    timer.add(0)
    all_rung.clear()
    timer.add(9)
    async with asyncio.timeout(5):
        await all_rung.wait()
    assert rung[-2:] == [0, 9]
