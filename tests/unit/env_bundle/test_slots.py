"""Slots: bounded, given back once, their peak remembered."""

import pytest

from rollgym.env_bundle.slots import AtCapacity, Slots, Stats


def test_a_full_house_says_how_full() -> None:
    slots = Slots(2)
    slots.acquire()
    slots.acquire()
    with pytest.raises(AtCapacity) as caught:
        slots.acquire()
    assert (caught.value.active, caught.value.limit) == (2, 2)
    assert str(caught.value) == "Server at capacity: 2/2 sessions active"


def test_a_released_slot_can_be_taken_again() -> None:
    slots = Slots(1)
    slots.acquire().release()
    slots.acquire()
    assert (slots.in_use, slots.peak) == (1, 1)


def test_releasing_twice_frees_one_slot() -> None:
    slots = Slots(2)
    slot, _ = slots.acquire(), slots.acquire()
    slot.release()
    slot.release()
    assert slots.in_use == 1


def test_without_a_limit_there_is_always_room() -> None:
    slots = Slots(None)
    for _ in range(5000):
        slots.acquire()
    assert slots.peak == 5000


def test_the_snapshot_tells_slots_and_totals() -> None:
    slots, stats = Slots(3), Stats(opens=2)
    slots.acquire()
    stats.closes["closed"] += 1
    shown = stats.snapshot(slots)
    assert (shown["active"], shown["limit"], shown["opens"], shown["closes"]) == (1, 3, 2, {"closed": 1})
