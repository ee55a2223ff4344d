"""Owners: there while they hold a request; gone a while after the last one ended, and only then."""

import asyncio
import math

from rollgym.resources.owners import Owners
from waiting import eventually

GRACE_S = 0.05


def unused(_: str) -> float:
    return math.inf


async def hold(owners: Owners, owner: str) -> "asyncio.Task[None]":
    task = asyncio.create_task(owners.held(owner))
    await asyncio.sleep(0)
    return task


async def let_go(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_an_owner_that_let_go_is_gone() -> None:
    gone: list[str] = []
    owners = Owners(gone.append, GRACE_S, unused)
    await let_go(await hold(owners, "a"))
    await eventually(lambda: gone == ["a"])
    assert len(owners) == 0


async def test_an_owner_that_came_back_or_holds_twice_is_there() -> None:
    gone: list[str] = []
    owners = Owners(gone.append, GRACE_S, unused)
    first, second = await hold(owners, "twice"), await hold(owners, "twice")
    await let_go(first)
    await let_go(await hold(owners, "back"))
    back = await hold(owners, "back")
    await let_go(await hold(owners, "later"))  # and so gone later than the others would be
    await eventually(lambda: gone)
    assert gone == ["later"]
    for task in (second, back):
        await let_go(task)
    await eventually(lambda: sorted(gone) == ["back", "later", "twice"])


async def test_an_owner_is_there_until_its_last_call_is_over_for_as_long_as_it_may_be_away() -> None:
    gone: list[str] = []
    ages = iter([0.0, 0.0, GRACE_S / 2, GRACE_S])
    owners = Owners(gone.append, GRACE_S, lambda _: next(ages))
    await let_go(await hold(owners, "a"))
    await eventually(lambda: gone == ["a"])
    assert next(ages, None) is None
    assert len(owners) == 0


async def test_closing_answers_everybody_and_nobody_is_gone_after_it() -> None:
    gone: list[str] = []
    owners = Owners(gone.append, GRACE_S, unused)
    await let_go(await hold(owners, "left"))
    task = await hold(owners, "there")
    owners.close()
    await asyncio.wait_for(task, 5)
    await asyncio.wait_for(owners.held("late"), 5)
    assert len(owners) == 0
    other = Owners(gone.append, 2 * GRACE_S, unused)
    await let_go(await hold(other, "other"))
    await eventually(lambda: gone)
    assert gone == ["other"]
