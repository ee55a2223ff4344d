"""Alarms: they sound while a session waits, once, and the wait goes on unless they end it."""

import asyncio

import pytest

from rollgym.env_bundle.alarms import Alarms


class Ended(Exception):
    pass


class Bell:
    def __init__(self, *, ends: bool = False) -> None:
        self.rung, self._ends = asyncio.Event(), ends

    async def ring(self) -> None:
        self.rung.set()
        if self._ends:
            raise Ended


async def test_without_alarms_the_wait_is_just_awaited() -> None:
    async def message() -> str:
        return "here"

    assert await Alarms().sounding_during(message) == "here"


async def test_an_alarm_sounds_and_the_wait_goes_on() -> None:
    alarms, bell = Alarms(), Bell()
    alarms.set("bell", 0.0, bell.ring)

    async def until_rung() -> str:
        await bell.rung.wait()
        return "after it"

    async with asyncio.timeout(5):
        assert await alarms.sounding_during(until_rung) == "after it"


async def test_what_an_alarm_raises_ends_the_wait() -> None:
    alarms = Alarms()
    alarms.set("bell", 0.0, Bell(ends=True).ring)
    with pytest.raises(Ended):
        await alarms.sounding_during(asyncio.Event().wait)


async def test_alarms_sound_in_the_order_of_their_times() -> None:
    alarms, first, last = Alarms(), Bell(), Bell(ends=True)
    alarms.set("last", 0.02, last.ring)
    alarms.set("first", 0.0, first.ring)
    with pytest.raises(Ended):
        await alarms.sounding_during(asyncio.Event().wait)
    assert first.rung.is_set()


async def test_a_cleared_alarm_stays_silent() -> None:
    alarms, cleared = Alarms(), Bell()
    alarms.set("cleared", 0.0, cleared.ring)
    alarms.set("end", 0.01, Bell(ends=True).ring)
    alarms.clear("cleared")
    with pytest.raises(Ended):
        await alarms.sounding_during(asyncio.Event().wait)
    assert not cleared.rung.is_set()


async def test_a_restarted_alarm_waits_its_whole_delay_again() -> None:
    alarms, restarted = Alarms(), Bell()
    alarms.set("restarted", 3600.0, restarted.ring)
    alarms.restart("restarted")
    await alarms.sound_if_due("restarted")
    assert not restarted.rung.is_set()


async def test_an_alarm_that_came_due_during_work_can_be_sounded_after_it() -> None:
    alarms, bell = Alarms(), Bell()
    alarms.set("bell", 0.0, bell.ring)
    await alarms.sound_if_due("bell")
    assert bell.rung.is_set()


async def test_a_timeout_of_the_wait_itself_is_not_swallowed() -> None:
    alarms = Alarms()
    alarms.set("bell", 3600.0, Bell().ring)

    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await alarms.sounding_during(fails)
