"""Admission: order of arrival, what refusals teach, back-off, and slots that never get lost."""

import asyncio
import contextlib
from functools import partial

import pytest

from jumping_clock import JumpingLoop
from rollgym.common.errors import EnvBusy
from rollgym.resources.admission import FAILURES_THAT_REFUSE, FIRST_HANDSHAKES, Backoff, Gate, Place, Slot
from rollgym.resources.verdicts import Verdict
from waiting import eventually

AT_CAPACITY = Verdict(True, "full", refusal=True)
TIMED_OUT = Verdict(True, "slow")
QUICK = Backoff(base_s=0.01, cap_s=0.02, full_s=30.0)
NEVER = Backoff(base_s=60.0, cap_s=60.0, full_s=60.0)


def gate(backoff: Backoff = NEVER, handshakes: int = 100) -> Gate:
    return Gate(max_handshakes=handshakes, backoff=backoff)


async def admitted(place: Place) -> Slot:
    async with asyncio.timeout(5):
        return await place.admitted()


async def is_kept_waiting(waiting: "asyncio.Task[Slot]") -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not waiting.done()


def are_done(waiting: "list[asyncio.Task[Slot]]", count: int) -> bool:
    return sum(task.done() for task in waiting) == count


async def full(found: Gate, sessions: int, limit: int | None = None) -> list[Slot]:
    """Sessions that are open, and a server that said it takes no more."""
    slots = []
    for _ in range(sessions):
        slots.append(await admitted(found.place()))
        slots[-1].confirm()
    (await admitted(found.place())).release(Verdict(True, "full", refusal=True, max_sessions=limit))
    return slots


async def test_an_unknown_server_is_asked_by_a_few_and_by_one_more_with_each_success() -> None:
    found = gate()
    slots = [await admitted(found.place()) for _ in range(FIRST_HANDSHAKES)]
    waiting = [asyncio.create_task(found.place().admitted()) for _ in range(3)]
    assert await is_kept_waiting(waiting[0])
    slots[0].confirm()
    await eventually(lambda: [task.done() for task in waiting] == [True, True, False])
    waiting[2].cancel()
    for slot in (*slots, waiting[0].result(), waiting[1].result()):
        slot.release()
    assert (found.held, found.confirmed, found.handshakes) == (0, 0, 0)


async def test_handshakes_in_progress_are_limited() -> None:
    found = gate(handshakes=2)
    first, _ = await admitted(found.place()), await admitted(found.place())
    third = asyncio.create_task(found.place().admitted())
    assert await is_kept_waiting(third)
    first.shook_hands()
    await asyncio.wait_for(third, 5)


async def test_a_freed_slot_admits_the_next_at_once() -> None:
    found = gate()
    (slot, _) = await full(found, 2)
    waiting = asyncio.create_task(found.place().admitted())
    assert await is_kept_waiting(waiting)
    slot.release()
    assert (await asyncio.wait_for(waiting, 5)).probe is False


async def test_waiters_are_served_in_order_of_arrival() -> None:
    found = gate()
    slots = await full(found, 4)
    order: list[int] = []

    async def wait(number: int, place: Place) -> None:
        slots.append(await place.admitted())
        order.append(number)

    tasks = [asyncio.create_task(wait(number, found.place())) for number in range(20)]
    await asyncio.sleep(0)
    while len(order) < 20:
        slots.pop(0).release()
        await asyncio.sleep(0)
    assert order == list(range(20))
    await asyncio.gather(*tasks)


async def test_a_refused_waiter_keeps_its_place() -> None:
    found = gate()
    (slot,) = await full(found, 1)
    early, late = found.place(), found.place()
    late_task = asyncio.create_task(late.admitted())
    assert await is_kept_waiting(late_task)
    early.failed(AT_CAPACITY)
    early_task = asyncio.create_task(early.admitted())
    assert await is_kept_waiting(early_task)
    slot.release()
    await asyncio.wait_for(early_task, 5)
    assert not late_task.done()
    late_task.cancel()


async def test_one_waiter_probes_when_capacity_is_unknown() -> None:
    found = gate(QUICK)
    await full(found, 1)
    waiting = [asyncio.create_task(found.place().admitted()) for _ in range(10)]
    await eventually(lambda: sum(task.done() for task in waiting) == 1)
    assert waiting[0].result().probe
    assert await is_kept_waiting(waiting[1])
    for task in waiting[1:]:
        task.cancel()


async def test_each_probe_that_succeeds_widens_the_probing() -> None:
    found = gate(QUICK)
    await full(found, 1)
    waiting = [asyncio.create_task(found.place().admitted()) for _ in range(10)]
    done = 0
    for expected in (1, 3, 7):
        await eventually(partial(are_done, waiting, expected))
        for task in waiting[done:expected]:
            task.result().confirm()
            done += 1
    assert found.ceiling == 8
    await eventually(lambda: all(task.done() for task in waiting))


async def test_a_server_full_of_our_own_sessions_is_hardly_probed() -> None:
    found = gate(QUICK)
    await full(found, 4, limit=4)
    waiting = asyncio.create_task(found.place().admitted())
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    waiting.cancel()


async def test_retry_after_shuts_the_gate_for_everybody() -> None:
    found = gate(QUICK)
    (slot,) = await full(found, 1)
    place = found.place()
    other = asyncio.create_task(found.place().admitted())
    slot_again = found.place().try_now()
    slot_again.release(Verdict(True, "503", refusal=True, retry_after_s=0.2))
    slot.release()
    started = found.now()
    assert await is_kept_waiting(other)
    await asyncio.wait_for(other, 5)
    assert found.now() - started >= 0.15
    place.failed(AT_CAPACITY)


async def test_a_timeout_delays_that_waiter_alone() -> None:
    found = gate(Backoff(base_s=60, cap_s=60))
    slow = found.place()
    (await admitted(slow)).release(TIMED_OUT)
    slow.failed(TIMED_OUT)
    waiting = asyncio.create_task(slow.admitted())
    assert await is_kept_waiting(waiting)
    await admitted(found.place())
    assert found.ceiling is None
    waiting.cancel()


async def test_many_timeouts_without_a_success_count_as_a_refusal() -> None:
    found = gate()
    slots = [await admitted(found.place()) for _ in range(FAILURES_THAT_REFUSE)]
    for slot in slots:
        slot.release(TIMED_OUT)
    assert found.ceiling == 0
    waiting = asyncio.create_task(found.place().admitted())
    assert await is_kept_waiting(waiting)
    waiting.cancel()


@pytest.mark.parametrize("verdict", [AT_CAPACITY, TIMED_OUT], ids=["refused", "timed out"])
def test_a_probe_that_fails_puts_off_the_next_one(verdict: Verdict) -> None:
    async def measure() -> list[float]:
        found = gate(Backoff(base_s=0.05, cap_s=60.0, jitter=lambda: 1.0))
        await full(found, 1)
        delays = []
        for _ in range(6):
            begun = found.now()
            (await admitted(found.place())).release(verdict)
            delays.append(found.now() - begun)
        return delays

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        delays = runner.run(measure())
    assert delays == [pytest.approx(expected, abs=0.002) for expected in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)]


async def test_timeouts_of_attempts_older_than_a_success_do_not_count() -> None:
    found = gate()
    old = [await admitted(found.place()) for _ in range(FAILURES_THAT_REFUSE)]
    old[-1].shook_hands()
    await asyncio.sleep(0.001)
    (await admitted(found.place())).confirm()
    for slot in old:
        slot.release(TIMED_OUT)
    assert found.ceiling is None


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    found = gate()
    (slot,) = await full(found, 1)
    first = asyncio.create_task(found.place().admitted())
    second = asyncio.create_task(found.place().admitted())
    assert await is_kept_waiting(first)
    first.cancel()
    slot.release()
    await asyncio.wait_for(second, 5)
    assert found.held == 1


async def test_a_waiter_cancelled_in_the_instant_of_its_admission_gives_the_slot_back() -> None:
    found = gate()
    (slot,) = await full(found, 1)
    first = asyncio.create_task(found.place().admitted())
    second = asyncio.create_task(found.place().admitted())
    assert await is_kept_waiting(first)
    slot.release()
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    await asyncio.wait_for(second, 5)
    assert found.held == 1


async def test_a_slot_is_released_once() -> None:
    found = gate()
    slot = await admitted(found.place())
    slot.confirm()
    slot.release()
    slot.release(AT_CAPACITY)
    assert (found.held, found.confirmed, found.ceiling) == (0, 0, None)


async def test_a_closed_gate_tells_those_who_wait_and_those_who_come() -> None:
    found = gate()
    await full(found, 1)
    waiting = asyncio.create_task(found.place().admitted())
    assert await is_kept_waiting(waiting)
    found.close(EnvBusy("stopping"))
    with pytest.raises(EnvBusy):
        await waiting
    with pytest.raises(EnvBusy):
        await found.place().admitted()


async def test_waiting_is_counted_while_a_place_is_held() -> None:
    found = gate()
    with found.place():
        assert found.waiting == 1
    assert found.waiting == 0


@pytest.mark.parametrize("jitter", [0.5, 1.0, 1.5])
def test_backoff_doubles_up_to_its_cap_and_jitters_after_it(jitter: float) -> None:
    backoff = Backoff(base_s=0.1, cap_s=2.0, jitter=lambda: jitter)
    assert [backoff.delay_s(n) for n in (1, 2, 5, 6, 100)] == pytest.approx(
        [0.1 * jitter, 0.2 * jitter, 1.6 * jitter, 2.0 * jitter, 2.0 * jitter]
    )


def test_backoff_never_waits_less_than_the_server_asked_for() -> None:
    backoff = Backoff()
    assert min(backoff.delay_s(1, least_s=7.0) for _ in range(1000)) >= 7.0
    assert len({backoff.delay_s(1, least_s=7.0) for _ in range(100)}) > 50
