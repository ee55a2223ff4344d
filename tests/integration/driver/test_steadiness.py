"""A steady driver: few tasks, flat memory, results that leave the heap, one large payload that stalls nobody."""

import asyncio
import gc
import os
import signal
import threading
from pathlib import Path

import pytest

from integration.driver.runs import RunFolder, agent_row, gym, gym_process, signal_when
from integration.driver.stub_agent import Answer, Arrival, stub_agent
from rollgym.driver.helper import RolloutCollectionHelper


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def test_rows_do_not_become_tasks_all_at_once(run: RunFolder) -> None:
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def behave(_: Arrival) -> Answer:
        seen.append(sum(task.get_name().startswith("rollouts-") for task in asyncio.all_tasks(loop)))
        return Answer()

    with stub_agent(behave) as stub:
        config = run.tasks(600).config(stub.url, num_samples_in_parallel=16)
        report = await RolloutCollectionHelper().run_from_config(config)
    assert report.complete
    assert stub.peak <= 16
    assert 0 < max(seen) <= 16


def test_memory_does_not_grow_with_results(run: RunFolder) -> None:
    """1,000 results of 100 KB, 100 MB in all: the driver at the end is as large as after the first 150."""
    at: dict[int, float] = {}
    pid: list[int] = []

    def behave(arrival: Arrival) -> Answer:
        if arrival.task in (150, 999) and pid:
            at[arrival.task] = resident_mb(pid[0])
        return Answer(text="x" * 100_000)

    with stub_agent(behave) as stub, gym_process(*run.tasks(1000).words(stub.url, "--concurrency", "16")) as gym:
        pid.append(gym.pid)
        assert gym.wait(100) == 0
    assert run.paths.results.stat().st_size > 100_000_000
    assert at[999] - at[150] < 40


def test_one_large_result_is_written_whole_and_the_small_ones_go_on(run: RunFolder) -> None:
    large = 20_000_000
    with stub_agent(lambda arrival: Answer(text="x" * (large if arrival.task == 0 else 10))) as stub:
        summary = run.tasks(100).summary(stub.url, "--concurrency", "8")
    sizes = {row["_ng_task_index"]: len(row["response"]["output"][0]["content"][0]["text"]) for row in run.rows}
    assert sizes == {0: large} | dict.fromkeys(range(1, 100), 10)
    assert summary["driver"]["event_loop_lag_s"]["p50"] < 0.25


def test_a_result_over_the_limit_fails_its_own_rollout_by_name(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(text="x" * (65 << 20) if arrival.task == 0 else "y")) as stub:
        assert run.tasks(3).run(stub.url).code == 3
    (failure,) = run.failures
    assert failure["_ng_task_index"] == 0
    assert "larger than" in failure["error_message"]
    assert stub.counts[0, 0] == 1
    assert len(run.rows) == 2


def test_collecting_all_the_time_loses_nothing(run: RunFolder) -> None:
    """Tasks that nobody holds would vanish at a collection; none does."""
    done = threading.Event()

    def collect() -> None:
        while not done.wait(0.01):
            gc.collect(0)
            gc.collect(1)

    collecting = threading.Thread(target=collect)
    collecting.start()
    try:
        with stub_agent(
            lambda arrival: Answer(status=500 if arrival.task % 10 == 0 and arrival.nth == 1 else 200)
        ) as stub:
            ended = run.tasks(300).run(stub.url)
    finally:
        done.set()
        collecting.join()
    assert ended.code == 0
    assert "was destroyed" not in ended.err
    assert len(run.rows) == 300


def test_the_frozen_count_stays_while_a_run_goes_on(run: RunFolder) -> None:
    counts: list[int] = []

    def behave(arrival: Arrival) -> Answer:
        if arrival.task in (0, 100, 199):  # it visits every frozen object: 40 ms in this process
            counts.append(gc.get_freeze_count())
        return Answer()

    with stub_agent(behave) as stub:
        assert gym(*run.tasks(200).words(stub.url)).code == 0
    assert len(counts) == 3
    assert min(counts) > 10_000
    assert max(counts) - min(counts) < 100


def test_no_row_waits_for_the_others_to_be_read(run: RunFolder) -> None:
    """20,000 rows owed: eight are in flight, and nothing was made of the rest."""
    rows = [agent_row(0, padding="x" * 200)] * 20_000
    with (
        stub_agent(lambda _: Answer(hang=True)) as stub,
        signal_when(lambda: len(stub.arrivals) == 8, signal.SIGTERM),
    ):
        assert run.tasks(rows).run(stub.url, "--concurrency", "8").code == 143
    assert len(stub.arrivals) == 8
    assert run.manifest["counts"]["missing"] == 20_000 - 8


@pytest.mark.parametrize("interleave", [False, True])
def test_repeats_are_dispatched_in_the_order_asked_for(run: RunFolder, interleave: bool) -> None:
    with stub_agent() as stub:
        words = ("--concurrency", "1", "--num-repeats", "2", f"++interleave_repeats={str(interleave).lower()}")
        assert run.tasks(3).run(stub.url, *words).code == 0
    keys = [arrival.key for arrival in stub.arrivals]
    by_task = [(task, rollout) for task in range(3) for rollout in range(2)]
    assert keys == (sorted(by_task, key=lambda key: key[1]) if interleave else by_task)
