"""The bound on payloads in memory: who waits for room, who goes on, and that a slow one holds up nobody for long."""

import asyncio
import random
from collections import Counter

import pytest

from rollgym.driver.payload_memory import LARGEST_SHARE, MOST_LOOKS, UNANNOUNCED_BYTES, PayloadMemory, Reservation
from waiting import eventually

ONE = 1024


def memory_for(payloads: int, looked_at_every_s: float = 60.0) -> PayloadMemory:
    """Room for that many payloads of ONE byte count each."""
    return PayloadMemory(limit_bytes=payloads * ONE, looked_at_every_s=looked_at_every_s)


async def test_room_is_given_in_order_of_arrival() -> None:
    memory, order = memory_for(LARGEST_SHARE), []

    async def payload(number: int, leave: asyncio.Event) -> None:
        with memory.reservation() as held:
            await held.take(ONE)
            order.append(number)
            await leave.wait()

    leave = [asyncio.Event() for _ in range(20)]
    tasks = [asyncio.create_task(payload(number, leave[number])) for number in range(20)]
    await eventually(lambda: len(order) == LARGEST_SHARE)
    assert memory.used_bytes == memory.limit_bytes
    for event in leave:
        event.set()
    await asyncio.gather(*tasks)
    assert order == list(range(20))
    assert memory.used_bytes == 0


async def test_a_large_payload_counts_for_a_part_of_the_bound_only() -> None:
    memory = memory_for(LARGEST_SHARE)
    with memory.reservation() as large, memory.reservation() as small:
        await large.take(10**9)
        await small.take(ONE)
        assert memory.used_bytes == 2 * ONE


async def test_an_unknown_size_counts_as_a_usual_one() -> None:
    memory = PayloadMemory()
    with memory.reservation() as held:
        await held.take(None)
        assert memory.used_bytes == UNANNOUNCED_BYTES


async def test_a_payload_that_does_not_move_is_counted_no_more() -> None:
    memory = memory_for(LARGEST_SHARE, looked_at_every_s=0.05)
    slow = [Reservation(memory) for _ in range(LARGEST_SHARE)]
    for held in slow:
        await held.take(ONE)
    with memory.reservation() as next_one:
        async with asyncio.timeout(5):
            await next_one.take(ONE)
    await eventually(lambda: memory.used_bytes == 0)
    for held in slow:
        held.give_back()
    assert memory.used_bytes == 0


ENOUGH = ONE // MOST_LOOKS + 1


@pytest.mark.parametrize(
    ("moves", "counts_at"),
    [
        ([ENOUGH] * MOST_LOOKS, MOST_LOOKS - 1),
        ([-ENOUGH] * MOST_LOOKS, MOST_LOOKS - 1),
        ([ONE // 2, 0], 1),
        ([ENOUGH, ENOUGH - 1], 1),
        ([0], 0),
    ],
    ids=["moves", "moves-out", "stops", "hardly-moves", "stands"],
)
async def test_a_payload_counts_while_a_tenth_of_it_moves_from_look_to_look(moves: list[int], counts_at: int) -> None:
    memory, moved, counted = memory_for(LARGEST_SHARE), 0, 0
    with memory.reservation() as held:
        await held.take(ONE)
        held.watch(lambda: moved)
        for move in moves:
            moved += move
            memory.on_their_way.discard(held)
            held.look()
            counted += memory.used_bytes == ONE
    assert counted == counts_at
    assert memory.used_bytes == 0


async def test_a_payload_that_arrived_counts_until_it_is_given_back() -> None:
    memory = memory_for(LARGEST_SHARE, looked_at_every_s=0.02)
    with memory.reservation() as on_its_way, memory.reservation() as here:
        await here.take(ONE)
        here.arrived()
        await on_its_way.take(ONE // 2)  # is looked at later than the other would be
        await eventually(lambda: memory.used_bytes == ONE)
    assert memory.used_bytes == 0


async def test_a_cancelled_waiter_takes_no_room_and_holds_up_nobody() -> None:
    memory = memory_for(LARGEST_SHARE)
    held = [Reservation(memory) for _ in range(LARGEST_SHARE)]
    for each in held:
        await each.take(ONE)
    first, second = Reservation(memory), Reservation(memory)
    cancelled = asyncio.create_task(first.take(ONE))
    waiting = asyncio.create_task(second.take(ONE))
    await asyncio.sleep(0)
    cancelled.cancel()
    held[0].give_back()
    await asyncio.gather(cancelled, waiting, return_exceptions=True)
    assert waiting.exception() is None
    assert memory.used_bytes == memory.limit_bytes
    for each in (*held, first, second):
        each.give_back()
    assert memory.used_bytes == 0


async def test_a_waiter_that_is_cancelled_as_it_is_let_in_gives_the_room_back() -> None:
    memory = memory_for(LARGEST_SHARE)
    held = [Reservation(memory) for _ in range(LARGEST_SHARE)]
    for each in held:
        await each.take(ONE)
    waiting = asyncio.create_task(Reservation(memory).take(ONE))
    await asyncio.sleep(0)
    held[0].give_back()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert memory.used_bytes == memory.limit_bytes - ONE
    for each in held:
        each.give_back()


async def test_an_empty_payload_keeps_no_other_from_its_time() -> None:
    memory = memory_for(LARGEST_SHARE, looked_at_every_s=0.05)
    with memory.reservation() as empty:
        await empty.take(0)
        slow = [Reservation(memory) for _ in range(LARGEST_SHARE)]
        for held in slow:
            await held.take(ONE)
        with memory.reservation() as next_one:
            async with asyncio.timeout(5):
                await next_one.take(ONE)
            assert memory.used_bytes == ONE


async def test_room_is_taken_at_once_only_where_nobody_waits() -> None:
    memory = memory_for(LARGEST_SHARE)
    held = [Reservation(memory) for _ in range(LARGEST_SHARE)]
    assert all(each.take_now(ONE) for each in held)
    assert not Reservation(memory).take_now(1)
    large, small = Reservation(memory), Reservation(memory)
    waiting = asyncio.create_task(large.take(ONE))
    await asyncio.sleep(0)
    assert not small.take_now(0)
    held[0].give_back()
    await waiting
    assert small.take_now(0)


# Several servers.


def of(memory: PayloadMemory, server: str) -> Reservation:
    made = memory.reservation()
    made.server = server
    return made


async def test_a_server_that_fills_the_memory_keeps_no_other_waiting() -> None:
    memory = memory_for(LARGEST_SHARE)
    slow = [of(memory, "slow") for _ in range(3 * LARGEST_SHARE)]
    waiting = [asyncio.create_task(each.take(ONE)) for each in slow]
    await asyncio.sleep(0)
    assert memory.used_bytes == memory.limit_bytes
    for _ in range(5):  # one after the other
        with of(memory, "fast") as fast:
            assert fast.take_now(ONE)
            assert not of(memory, "slow").take_now(1)
    assert memory.used_bytes == memory.limit_bytes
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for each in slow:
        each.give_back()
    assert memory.used_bytes == 0


async def test_room_goes_to_the_server_that_has_the_least() -> None:
    memory, order = memory_for(LARGEST_SHARE), []

    async def payload(held: Reservation, size: int) -> None:
        await held.take(size)
        order.append(held.server)

    first = [of(memory, "a") for _ in range(LARGEST_SHARE - 2)] + [of(memory, "b") for _ in range(2)]
    assert all(each.take_now(ONE) for each in first)
    later = [of(memory, server) for server in "aabb"]
    tasks = [asyncio.create_task(payload(each, ONE)) for each in later]
    await asyncio.sleep(0)
    assert not order
    for each in first[:4]:  # of "a", which has six: then five, four, three, two
        each.give_back()
        await asyncio.sleep(0)
    assert order == ["b", "b", "a", "a"]
    await asyncio.gather(*tasks)
    for each in (*first, *later):
        each.give_back()
    assert memory.used_bytes == 0


async def test_a_server_that_waits_gets_its_due_as_soon_as_it_has_less() -> None:
    memory = memory_for(LARGEST_SHARE)
    other = [of(memory, "other") for _ in range(LARGEST_SHARE)]
    assert all(each.take_now(ONE) for each in other)
    mine, mine_too = of(memory, "mine"), of(memory, "mine")
    assert mine.take_now(ONE)
    waiting = asyncio.create_task(mine_too.take(ONE))
    await asyncio.sleep(0)
    assert not waiting.done()
    mine.give_back()
    await asyncio.wait_for(waiting, 5)
    for each in (*other, mine_too):
        each.give_back()
    assert memory.used_bytes == 0


async def test_an_empty_payload_is_given_back_after_all_others_of_its_server() -> None:
    memory = memory_for(LARGEST_SHARE)
    full, empty = of(memory, "a"), of(memory, "a")
    assert full.take_now(ONE)
    assert empty.take_now(0)
    full.give_back()
    memory.release(0, "a")  # as one does that was cancelled as it was let in
    empty.give_back()
    assert memory.used_bytes == 0


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_room_is_neither_lost_nor_given_twice(seed: int) -> None:
    rng, memory, servers = random.Random(seed), memory_for(LARGEST_SHARE, looked_at_every_s=0.005), "abcd"
    most, served = 0, Counter[str]()

    async def payload(server: str) -> None:
        nonlocal most
        with of(memory, server) as held:
            size = rng.choice([0, 1, ONE // 2, ONE, 5 * ONE, None])
            if not held.take_now(size):
                await held.take(size)
            most = max(most, memory.used_bytes)
            if rng.random() < 0.5:
                held.watch(lambda: rng.randrange(3 * ONE))
            await asyncio.sleep(rng.random() * 0.01)
            held.arrived()
            await asyncio.sleep(rng.random() * 0.01)
        served[server] += 1

    tasks = [asyncio.create_task(payload(rng.choice(servers))) for _ in range(400)]
    for task in rng.sample(tasks, 100):
        await asyncio.sleep(0)
        task.cancel()
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert served.total() >= 300
    assert memory.used_bytes == 0
    assert most <= memory.limit_bytes + len(servers) * 2 * ONE
    assert all(each.take_now(ONE) for each in [of(memory, "a") for _ in range(LARGEST_SHARE)])
