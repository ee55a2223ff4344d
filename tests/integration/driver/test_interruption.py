"""A driver that is told to end, or is killed: artifacts valid, sessions closed, no child left, a resume completes."""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from integration.driver.runs import UNTUNED, RunFolder, gym, gym_process, keys, read_rows, signal_when, write_rows
from integration.driver.stub_agent import Answer, stub_agent
from waiting import wait_until

CODES = [pytest.param(signal.SIGTERM, 143, id="sigterm"), pytest.param(signal.SIGINT, 130, id="sigint")]


def everything(count: int) -> Counter[tuple[int, int]]:
    return Counter({(task, 0): 1 for task in range(count)})


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_signal_ends_the_run_in_order_and_a_resume_completes_it(
    run: RunFolder, number: signal.Signals, code: int
) -> None:
    with stub_agent(lambda arrival: Answer(hang=arrival.task >= 20)) as stub:
        words = ("--concurrency", "4", "++max_rollout_attempts=1")
        with signal_when(lambda: len(stub.arrivals) == 24, number):
            ended = run.tasks(40).run(stub.url, *words)
        assert ended.code == code
        assert "Traceback" not in ended.err + ended.out
        assert "--resume" in ended.out
        wait_until(lambda: len(stub.left) == 4, 5)
        assert keys(run.rows) == everything(20)
        assert not run.failures
        manifest = run.manifest
        assert (manifest["state"], manifest["note"], manifest["exit_code"]) == ("interrupted", number.name, code)
        assert (manifest["counts"]["succeeded"], manifest["counts"]["cancelled"]) == (20, 4)
        assert Counter(line["event"] for line in run.journal)["cancelled"] == 4
        assert not run.paths.lock.exists()
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, "--resume", "++max_rollout_attempts=1").code == 0
    assert keys(run.rows) == everything(40)
    assert max(stub.counts.values()) == 2


def test_interruptions_use_up_no_attempt(run: RunFolder) -> None:
    """Interrupted more often than attempts are allowed, every rollout still reaches its row."""
    words = ("--resume", "++max_rollout_attempts=1")
    run.tasks(3)
    with stub_agent(lambda _: Answer(hang=True)) as stub:
        for time in range(1, 4):
            arrived = 3 * time
            with signal_when(lambda arrived=arrived: len(stub.arrivals) == arrived, signal.SIGTERM):  # type: ignore[misc]
                assert run.run(stub.url, *words).code == 143
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, *words).code == 0
    assert keys(run.rows) == everything(3)
    assert not run.failures


def test_counts_are_those_of_the_files_when_a_signal_comes_amid_writes(run: RunFolder) -> None:
    with (
        stub_agent(lambda _: Answer(text="x" * 20_000)) as stub,
        signal_when(lambda: len(stub.arrivals) >= 150, signal.SIGTERM),
    ):
        assert run.tasks(2000).run(stub.url).code == 143
    assert 0 < len(run.rows) < 2000
    assert run.manifest["counts"]["succeeded"] == len(run.rows)
    assert keys(run.rows).total() == len(keys(run.rows))
    assert sum(line["event"] == "succeeded" for line in run.journal) == len(run.rows)


def test_a_second_signal_ends_it_at_once(run: RunFolder) -> None:
    with (
        stub_agent(lambda _: Answer(hang=True)) as stub,
        gym_process(*run.tasks(3).words(stub.url, "--drain-on-sigterm")) as gym,
    ):
        wait_until(lambda: len(stub.arrivals) == 3, 40)
        gym.send()
        wait_until(lambda: "nothing more is started" in gym.log(), 10)
        gym.send()
        assert gym.wait(5) == 143
        assert read_rows(run.paths.results) == []


def test_draining_on_sigterm_finishes_what_is_in_flight_and_starts_nothing(run: RunFolder) -> None:
    held = threading.Event()
    with (
        stub_agent(lambda _: Answer(after=held)) as stub,
        signal_when(lambda: len(stub.arrivals) == 4, signal.SIGTERM),
    ):
        freeing = threading.Timer(1.5, held.set)  # by then the signal was met
        freeing.start()
        assert run.tasks(10).run(stub.url, "--drain-on-sigterm", "--concurrency", "4").code == 143
        freeing.join()
        assert stub.counts.total() == 4
    counts = run.manifest["counts"]
    assert (counts["succeeded"], counts["drained"], counts["cancelled"]) == (4, 6, 0)
    assert len(run.rows) == 4


def test_a_killed_driver_leaves_files_that_a_resume_completes(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(hang=arrival.task >= 10)) as stub:
        with gym_process(*run.tasks(20).words(stub.url, "--concurrency", "4")) as gym:
            wait_until(lambda: len(stub.arrivals) == 14, 40)
            gym.send(signal.SIGKILL)
            gym.wait(10)
        assert len(stub.keys) == 14
        assert run.manifest["state"] == "running"
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, "--resume").code == 0
    assert keys(run.rows) == everything(20)
    assert run.manifest["counts"]["succeeded"] == 20


@pytest.mark.parametrize("hung", [False, True], ids=["before-the-aggregate", "while-it-is-asked-for"])
def test_an_agent_that_never_gives_its_aggregate_holds_up_no_stop(run: RunFolder, hung: bool) -> None:
    states: list[str] = []

    def asked() -> bool:
        if "/aggregate_metrics" in stub.reports:
            states.append(run.manifest["state"])
        return bool(states)

    with stub_agent(lambda arrival: Answer(hang=arrival.task == 1 and not hung)) as stub:
        stub.aggregate = None
        with signal_when(asked if hung else lambda: len(run.rows) == 1 and len(stub.arrivals) == 2, signal.SIGTERM):
            ended = run.tasks(2).run(stub.url)
    assert ended.code == (0 if hung else 143)
    assert states == (["finished"] if hung else [])
    assert "own aggregates were not waited for" in ended.err + ended.out
    assert run.paths.aggregate_metrics.exists()


def children_of(pid: int) -> set[int]:
    """Every process below `pid`, from /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found: set[int] = set()
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown} - found
        found |= grown
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of `pids` that still run; a process that ended and waits to be reaped does not."""
    running = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.add(pid)
    return running


def embedded(run: RunFolder, *more: str) -> tuple[str, ...]:
    """An embedded run whose rollouts wait in their environment for longer than any test."""
    calls = [{"name": "step", "arguments": {"message": "x", "delay_s": 300}}]
    row = {"responses_create_params": {"input": "x"}, "env": "echo", "scripted": {"calls": calls}}
    write_rows(run.input, [row] * 4)
    files = ("--input", str(run.input), "--output", str(run.paths.results))
    return ("eval", "run", *files, "++metrics_port=0", *UNTUNED, *more)


def playing(run: RunFolder) -> bool:
    """Whether every rollout of an embedded run is in its episode."""
    log = run.paths.logs / "resources.log"
    dispatched = [line for line in run.journal if line["event"] == "dispatched"] if run.paths.journal.exists() else []
    return log.exists() and len(dispatched) == 4


def test_no_child_outlives_a_driver_that_is_killed(run: RunFolder) -> None:
    with gym_process(*embedded(run)) as driver:
        wait_until(lambda: playing(run), 90)
        children = children_of(driver.pid)
        assert len(alive(children)) == 2
        driver.send(signal.SIGKILL)
        assert driver.wait(20) == -signal.SIGKILL
        wait_until(lambda: not alive(children), 5)
    assert not run.failures


def test_no_child_outlives_a_driver_that_is_stopped(run: RunFolder) -> None:
    before = children_of(os.getpid())
    with signal_when(lambda: playing(run), signal.SIGTERM):
        assert gym(*embedded(run)).code == 143
    assert not alive(children_of(os.getpid()) - before)
    assert not run.failures
    assert run.manifest["counts"]["cancelled"] == 4


def test_a_signal_while_the_servers_start_leaves_nothing(run: RunFolder) -> None:
    before = children_of(os.getpid())
    with signal_when(lambda: children_of(os.getpid()) - before, signal.SIGTERM):
        ended = gym(*embedded(run))
    assert ended.code == 143
    assert "Traceback" not in ended.err
    assert not alive(children_of(os.getpid()) - before)
    assert not run.paths.manifest.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("++serve.env_bundle_args=[--no-such-flag]",), ["env-bundle ended with code 2", "unknown flag"], id="bundle"
        ),
        pytest.param(
            ("++serve.resources_args=[--patience,-1]",), ["resources ended with code 2", "--patience"], id="resources"
        ),
    ],
)
def test_a_server_that_does_not_start_is_named_with_its_code_and_log(
    run: RunFolder, words: tuple[str, ...], said: list[str]
) -> None:
    before = children_of(os.getpid())
    ended = gym(*embedded(run, *words))
    assert ended.code == 1
    for each in said:
        assert each in ended.err
    assert "Traceback" not in ended.err
    assert not alive(children_of(os.getpid()) - before)
    assert not run.paths.manifest.exists()
