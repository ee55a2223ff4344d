"""One timer for many items: each has its time, and there is never a second timer."""

import asyncio
from collections import Counter

import pytest

from rollgym.driver.shared_timer import SharedTimer
from waiting import eventually

SOON_S = 0.02


def rings() -> int:
    """Timers that the loop holds and that are not cancelled."""
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not handle.cancelled() and "_ring" in repr(handle) for handle in scheduled)


async def test_items_that_come_back_at_their_time_need_no_further_timer() -> None:
    rung: Counter[int] = Counter()

    def expired(item: int) -> None:
        rung[item] += 1
        if rung[item] < 10:
            timer.add(item)

    timer = SharedTimer[int](SOON_S, expired)
    most = 0
    for item in range(20):
        timer.add(item)
        await asyncio.sleep(SOON_S / 15)
        most = max(most, rings())
    while len(rung) < 20 or min(rung.values()) < 10:
        await asyncio.sleep(SOON_S / 4)
        most = max(most, rings())
    assert most == 1
    assert rung == Counter(dict.fromkeys(range(20), 10))
    await eventually(lambda: rings() == 0)


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
