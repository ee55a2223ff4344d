"""What is started next: first attempts in order, retries when due, nothing once closed, nothing without time for it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rollgym.driver.dispatch import DispatchBudget, DispatchQueue
from rollgym.driver.materialized import MaterializedRows, RowLabels
from rollgym.driver.outcomes import Attempt
from rollgym.driver.rollout_perf import DispatchLatencyTracker

LABELS = RowLabels("rollgym_agent", b'{"name":"rollgym_agent"}', None)


def rows(count: int) -> MaterializedRows:
    found = MaterializedRows(Path("unread"))
    for task in range(count):
        found.add(task, (task, 0), LABELS)
    return found


def queue(count: int, *, prior: dict[int, int] | None = None, backoff_s: float = 0.0) -> DispatchQueue:
    return DispatchQueue(rows(count), iter(range(count)), prior_attempts=prior or {}, backoff_s=backoff_s)


async def all_of(queue: DispatchQueue) -> AsyncIterator[Attempt]:
    while (dispatch := await queue.take()) is not None:
        yield dispatch.attempt


async def test_first_attempts_come_in_order_and_then_nothing() -> None:
    assert [attempt.key async for attempt in all_of(queue(3))] == [(0, 0), (1, 0), (2, 0)]


async def test_every_first_attempt_goes_before_any_retry() -> None:
    tried = queue(4)
    first = await tried.take()
    assert first is not None
    tried.retry(first.attempt)
    order = [(attempt.position, attempt.number) async for attempt in all_of(tried)]
    assert order == [(1, 0), (2, 0), (3, 0), (0, 1)]


async def test_a_retry_waits_for_its_time() -> None:
    tried = queue(1, backoff_s=0.05)
    first = await tried.take()
    assert first is not None
    began = asyncio.get_running_loop().time()
    tried.retry(first.attempt)
    again = await tried.take()
    assert again is not None
    assert asyncio.get_running_loop().time() - began >= 0.05
    assert again.attempt.rollout_id == "0-0-a1"


async def test_attempts_of_an_earlier_start_are_counted_on() -> None:
    assert [attempt.number async for attempt in all_of(queue(3, prior={1: 2}))] == [0, 2, 0]


async def test_one_waiter_a_retry_stays_and_the_others_may_leave() -> None:
    tried = queue(1, backoff_s=30)
    first = await tried.take()
    assert first is not None
    tried.retry(first.attempt)
    waiting = asyncio.create_task(tried.take())
    await asyncio.sleep(0)
    assert await tried.take() is None
    assert not waiting.done()
    tried.close()
    assert await waiting is None


async def test_closing_wakes_who_waits_and_leaves_everything_to_be_drained() -> None:
    tried = queue(3, backoff_s=30)
    first = await tried.take()
    assert first is not None
    tried.retry(first.attempt)
    tried.close()
    assert await tried.take() is None
    assert [(attempt.position, attempt.number) for attempt in tried.undispatched()] == [(1, 0), (2, 0), (0, 1)]


async def test_nothing_is_read_ahead_of_its_dispatch() -> None:
    asked: list[int] = []

    def fresh() -> Iterator[int]:
        for position in range(1000):
            asked.append(position)
            yield position

    tried = DispatchQueue(rows(1000), fresh(), prior_attempts={}, backoff_s=0)
    for _ in range(3):
        await tried.take()
    assert asked == [0, 1, 2]


def latency(*seconds: float) -> DispatchLatencyTracker:
    tracker = DispatchLatencyTracker()
    for each in seconds:
        tracker.record(each)
    return tracker


@pytest.mark.parametrize(
    ("budget_s", "margin_s", "finished", "allowed"),
    [
        pytest.param(None, None, (), True, id="no-budget"),
        pytest.param(None, 1e9, (), True, id="a-margin-alone-is-nothing"),
        pytest.param(0.0, None, (), False, id="spent-from-the-start"),
        pytest.param(100.0, None, (), True, id="no-margin-known-yet"),
        pytest.param(100.0, 500.0, (), False, id="margin-above-the-budget"),
        pytest.param(100.0, 50.0, (), True, id="margin-below-the-budget"),
        pytest.param(100.0, None, (500.0,) * 4, True, id="too-few-finished"),
        pytest.param(100.0, None, (500.0,) * 5, False, id="p75-above-the-budget"),
        pytest.param(100.0, None, (5.0,) * 5, True, id="p75-below-the-budget"),
        pytest.param(100.0, 0.0, (500.0,) * 5, True, id="an-explicit-zero-wins"),
    ],
)
def test_a_start_needs_time_to_finish(
    budget_s: float | None, margin_s: float | None, finished: tuple[float, ...], allowed: bool
) -> None:
    assert DispatchBudget(budget_s, margin_s, latency(*finished)).allows_start() is allowed


async def test_a_server_that_is_restarting_is_given_more_time() -> None:
    tried = queue(2, backoff_s=1.0)
    dispatches = [await tried.take(), await tried.take()]
    attempts = [dispatch.attempt for dispatch in dispatches if dispatch is not None]
    tried.retry(attempts[0], patience=100.0)
    tried.retry(attempts[1])
    assert [attempt.position for attempt in tried.undispatched()] == [1, 0]
