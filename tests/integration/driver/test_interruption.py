"""A driver that is told to end, or is killed: artifacts valid, sessions closed, no child left, a resume completes."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from integration.driver.runs import RunFolder, gym_process, keys, read_rows, write_rows
from integration.driver.stub_agent import Answer, Arrival, stub_agent
from processes import RunningCommand
from waiting import wait_until

CODES = [pytest.param(signal.SIGTERM, 143, id="sigterm"), pytest.param(signal.SIGINT, 130, id="sigint")]


def everything(count: int) -> Counter[tuple[int, int]]:
    return Counter({(task, 0): 1 for task in range(count)})


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_signal_ends_the_run_in_order_and_a_resume_completes_it(
    run: RunFolder, number: signal.Signals, code: int
) -> None:
    with stub_agent(lambda arrival: Answer(hang=arrival.task >= 20)) as stub:
        with gym_process(*run.tasks(40).words(stub.url, "--concurrency", "4", "++max_rollout_attempts=1")) as gym:
            wait_until(lambda: len(stub.arrivals) == 24, 40)
            gym.send(number)
            assert gym.wait(20) == code
            said = gym.log() + gym.output()
        assert "Traceback" not in said
        assert "--resume" in said
        assert len(stub.left) == 4
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
    with stub_agent(lambda _: Answer(hang=True)) as stub:
        words = run.tasks(3).words(stub.url, "--resume", "++max_rollout_attempts=1")
        for time in range(1, 3):
            with gym_process(*words) as gym:
                wait_until(lambda time=time: len(stub.arrivals) == 3 * time, 40)
                gym.send()
                assert gym.wait(20) == 143
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, "--resume", "++max_rollout_attempts=1").code == 0
    assert keys(run.rows) == everything(3)
    assert not run.failures


def test_counts_are_those_of_the_files_when_a_signal_comes_amid_writes(run: RunFolder) -> None:
    def behave(arrival: Arrival) -> Answer:
        if arrival.task == 150:
            os.kill(pid[0], signal.SIGTERM)
        return Answer(text="x" * 20_000)

    pid: list[int] = []
    with (
        stub_agent(behave) as stub,
        gym_process(*run.tasks(400).words(stub.url, "--concurrency", "64")) as gym,
    ):
        pid.append(gym.pid)
        assert gym.wait(40) == 143
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
    with stub_agent() as stub:
        import threading

        held = threading.Event()
        stub.behave = lambda _: Answer(after=held)
        with gym_process(*run.tasks(10).words(stub.url, "--drain-on-sigterm", "--concurrency", "4")) as gym:
            wait_until(lambda: len(stub.arrivals) == 4, 40)
            gym.send()
            wait_until(lambda: "nothing more is started" in gym.log(), 10)
            held.set()
            assert gym.wait(20) == 143
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
    with stub_agent(lambda arrival: Answer(hang=arrival.task == 1 and not hung)) as stub:
        stub.aggregate = None
        with gym_process(*run.tasks(2).words(stub.url)) as gym:
            wait_until(lambda: "/aggregate_metrics" in stub.reports if hung else len(stub.arrivals) == 2, 40)
            if hung:
                assert run.manifest["state"] == "finished"
            gym.send()
            assert gym.wait(10) == (0 if hung else 143)
            assert "own aggregates were not waited for" in gym.log() + gym.output()
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
    return ("eval", "run", *files, "++metrics_port=0", *more)


def playing(run: RunFolder) -> bool:
    """Whether every rollout of an embedded run is in its episode."""
    log = run.paths.logs / "resources.log"
    dispatched = [line for line in run.journal if line["event"] == "dispatched"] if run.paths.journal.exists() else []
    return log.exists() and len(dispatched) == 4


@pytest.mark.parametrize(("number", "code"), [*CODES, pytest.param(signal.SIGKILL, -9, id="sigkill")])
def test_no_child_outlives_an_embedded_run(run: RunFolder, number: signal.Signals, code: int) -> None:
    with gym_process(*embedded(run)) as gym:
        wait_until(lambda: playing(run), 90)
        children = children_of(gym.pid)
        assert len(alive(children)) == 2
        gym.send(number)
        assert gym.wait(20) == code
        wait_until(lambda: not alive(children), 5)
    assert not run.failures


def test_a_signal_while_the_servers_start_leaves_nothing(run: RunFolder) -> None:
    with gym_process(*embedded(run)) as gym:
        children = wait_until(lambda: children_of(gym.pid), 60)
        gym.send()
        assert gym.wait(20) == 143
        wait_until(lambda: not alive(children), 5)
        assert "Traceback" not in gym.log()


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
    with gym_process(*embedded(run, *words)) as gym:
        assert gym.wait(60) == 1
        log = gym.log()
        for each in said:
            assert each in log
        assert "Traceback" not in log
        assert not mine(gym)
    assert not run.paths.manifest.exists()


def mine(gym: RunningCommand) -> set[int]:
    """Live processes that name this run's log folder or descend from it."""
    return alive(children_of(gym.pid))
