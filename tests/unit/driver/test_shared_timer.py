"""One timer for many items: each has its time, and there is never a second timer."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from rollgym.driver.shared_timer import SharedTimer
from waiting import eventually

SOON_S = 0.02


async def test_items_that_come_back_at_their_time_need_no_further_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers, pending, rung = asyncio.get_running_loop(), list[asyncio.TimerHandle](), set[int](), Counter[int]()
    call_at = loop.call_at

    def counted(when: float, what: Any, *words: Any, **more: Any) -> asyncio.TimerHandle:  # call_later comes here, too
        handle = call_at(when, what, *words, **more)
        if getattr(what, "__self__", None) is timer:
            timers.append(handle)
        return handle

    def expired(item: int) -> None:
        rung[item] += 1
        if rung[item] < 10:
            timer.add(item)
        pending.add(sum(handle.when() > loop.time() for handle in timers))

    timer = SharedTimer[int](SOON_S, expired)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_at", counted)
        for item in range(20):
            timer.add(item)
        await eventually(lambda: rung.total() == 200)
    assert rung == Counter(dict.fromkeys(range(20), 10))
    assert pending == {0}, "while it rings, no other timer is set"


async def test_an_item_that_was_taken_out_is_not_rung_for() -> None:
    rung: list[str] = []
    timer = SharedTimer[str](SOON_S, rung.append)
    timer.add("out")
    timer.add("in")
    timer.discard("out")
    await eventually(lambda: bool(rung))
    assert rung == ["in"]


async def test_an_error_of_one_item_costs_no_other_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_exception_handler", lambda context: told.append(str(context["exception"]))
    )
    rung: list[str] = []

    def expired(item: str) -> None:
        if item == "wrong":
            raise ValueError(item)
        rung.append(item)

    timer = SharedTimer[str](SOON_S, expired)
    timer.add("wrong")
    timer.add("right")
    await eventually(lambda: rung == ["right"])
    assert told == ["wrong"]
