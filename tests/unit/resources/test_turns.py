"""Turns: one call at a time, in order of arrival, and not too many waiting."""

import asyncio
import contextlib

import pytest

from rollgym.common.errors import SessionQueueFull
from rollgym.resources.turns import QUEUE_LIMIT, Turns


async def test_turns_are_taken_in_order_of_arrival_one_at_a_time() -> None:
    turns, order = Turns(), list[str]()

    async def served(name: str) -> None:
        await turns.take()
        order.append(f"{name} begins")
        await asyncio.sleep(0)
        order.append(f"{name} ends")
        turns.end()

    await asyncio.gather(*(served(name) for name in "abc"))
    assert order == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


async def test_one_is_served_and_64_wait_and_no_more() -> None:
    turns = Turns()
    await turns.take()
    waiting = [asyncio.create_task(turns.take()) for _ in range(QUEUE_LIMIT)]
    await asyncio.sleep(0)
    with pytest.raises(SessionQueueFull) as caught:
        await turns.take()
    assert caught.value.status == 429
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    turns.end()
    await turns.take()


async def test_a_close_waits_however_many_wait_but_not_for_ever() -> None:
    turns = Turns()
    await turns.take()
    assert await turns.take_within(0.01) is False
    turns.end()
    assert await turns.take_within(5) is True


async def test_idle_means_that_nobody_is_served_or_waits() -> None:
    turns = Turns()
    await asyncio.sleep(0.01)
    assert turns.idle_s() > 0
    await turns.take()
    await asyncio.sleep(0.01)
    assert turns.idle_s() == 0.0
    waiting = asyncio.create_task(turns.take())
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    assert turns.idle_s() == 0.0
    turns.end()
    assert turns.idle_s() >= 0.0
