"""Dispatch against agent servers that fail, hang, trickle and cut: what each rollout costs, and what it never costs."""

import json
import resource
import subprocess
import threading
import time
from collections import Counter

import pytest

from integration.common.pipes import full_pipe
from integration.driver.runs import RunFolder, agent_row, key_of, keys
from integration.driver.stub_agent import AGENT, Answer, Arrival, stub_agent
from processes import command_path
from rollgym.driver.artifacts.paths import ArtifactPaths
from waiting import wait_until


def test_one_500_from_the_agent_costs_its_own_rollout_only(run: RunFolder) -> None:
    bad = {3, 17, 21}
    with stub_agent(lambda arrival: Answer(status=500, body=b"{}") if arrival.task in bad else Answer()) as stub:
        ended = run.tasks(40).run(stub.url)
    assert ended.code == 3
    assert "Traceback" not in ended.err + ended.out
    assert keys(run.rows) == Counter({(task, 0): 1 for task in range(40) if task not in bad})
    assert keys(run.failures) == Counter({(task, 0): 3 for task in bad})
    assert stub.counts.total() == 37 + 3 * 3
    assert {row["_ng_failure_class"] for row in run.failures} == {"agent_request_failed"}
    assert not any("reward" in row for row in run.failures)


@pytest.mark.parametrize(
    ("status", "arrivals"),
    [
        pytest.param(400, 1, id="400-is-final"),
        pytest.param(404, 1, id="404-is-final"),
        pytest.param(422, 1, id="422-is-final"),
        pytest.param(429, 3, id="429-may-pass"),
        pytest.param(503, 3, id="503-may-pass"),
        pytest.param(504, 3, id="504-may-pass"),
    ],
)
def test_attempts_end_at_a_final_answer_or_at_the_limit(run: RunFolder, status: int, arrivals: int) -> None:
    with stub_agent(lambda _: Answer(status=status, body=b'{"detail": "no"}')) as stub:
        assert run.tasks(3).run(stub.url).code == 3
    assert set(stub.counts.values()) == {arrivals}
    assert {row["data"]["status"] for row in run.failures} == {status}


def test_a_redirect_is_not_followed(run: RunFolder) -> None:
    """A 307 would have the row sent again, to whoever it names."""
    with (
        stub_agent() as other,
        stub_agent(lambda _: Answer(status=307, headers={"Location": other.url + "/run"})) as stub,
    ):
        assert run.tasks(1).run(stub.url).code == 3
    assert stub.counts.total() == 1
    assert not other.arrivals


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(cut=True), id="connection-reset"),
        pytest.param(Answer(headers={"Content-Encoding": "gzip"}), id="no-gzip-although-it-says-so"),
        pytest.param(Answer(body=b"<html>busy</html>"), id="html"),
        pytest.param(Answer(body=b""), id="empty"),
        pytest.param(Answer(body=b"[1, 2]"), id="json-array"),
        pytest.param(Answer(body=b'{"reward": 1.0, "a": "\xff"}'), id="not-utf-8"),
        pytest.param(Answer(body=b'{"a":' * 100_000 + b"1" + b"}" * 100_000), id="nested-100000-deep"),
        pytest.param(Answer(headers={"X-Long": "x" * 99_000}), id="head-of-99000-bytes"),
    ],
)
def test_an_unreadable_answer_is_a_failed_attempt_of_the_agent(run: RunFolder, answer: Answer) -> None:
    with stub_agent(lambda arrival: answer if arrival.task == 1 else Answer()) as stub:
        ended = run.tasks(3).run(stub.url)
    assert (ended.code, keys(run.rows)) == (3, Counter({(0, 0): 1, (2, 0): 1})), ended
    assert {row["_ng_failure_class"] for row in run.failures} == {"agent_request_failed"}
    assert "Traceback" not in ended.err + ended.out


def test_hung_rollouts_end_at_the_limit_and_hold_no_slot_beyond_it(run: RunFolder) -> None:
    hung = {1, 2, 3, 4}
    with stub_agent(lambda arrival: Answer(hang=arrival.task in hung)) as stub:
        words = ("--concurrency", "4", "++rollout_timeout_s=0.3", "++max_rollout_attempts=2")
        assert run.tasks(40).run(stub.url, *words).code == 3
    assert keys(run.rows) == Counter({(task, 0): 1 for task in range(40) if task not in hung})
    assert {(row["_ng_failure_class"], key_of(row)[0]) for row in run.failures} == {
        ("rollout_timeout", task) for task in hung
    }
    assert stub.peak <= 4
    # The others' first attempts come before a hung one's second: it cannot take over the slots.
    order = [(arrival.task, arrival.nth) for arrival in stub.arrivals]
    assert all(nth == 1 for _, nth in order[:40])


def test_the_limit_is_a_bound_in_wall_time_for_a_peer_that_trickles(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(trickle_s=0.05)) as stub:
        words = ("++rollout_timeout_s=0.5", "++max_rollout_attempts=1")
        assert run.tasks(1).run(stub.url, *words).code == 3
    (failure,) = run.failures
    assert failure["_ng_failure_class"] == "rollout_timeout"
    assert 0.5 <= failure["_rollgym_latency_s"] < 2.0


def test_a_timed_out_attempt_is_given_up_before_the_next_and_its_late_result_is_nobodys(run: RunFolder) -> None:
    second = threading.Event()

    def behave(arrival: Arrival) -> Answer:
        if arrival.nth == 1:
            return Answer(reward=1.0, after=second)
        second.set()
        return Answer(reward=0.0)

    with stub_agent(behave) as stub:
        assert run.tasks(1).run(stub.url, "++rollout_timeout_s=0.5").code == 0
        wait_until(lambda: stub.left == [(0, 0)], 5)
    assert [row["reward"] for row in run.rows] == [0.0]
    assert run.rows[0]["_ng_attempt_index"] == 1
    assert [row["_ng_failure_class"] for row in run.failures] == ["rollout_timeout"]
    assert stub.overlaps == 0


def test_a_retry_carries_its_attempt_index_and_the_first_attempt_none(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(status=200 if arrival.nth == 3 else 500)) as stub:
        assert run.tasks(1).run(stub.url).code == 0
    assert [arrival.row.get("_ng_attempt_index") for arrival in stub.arrivals] == [None, 1, 2]
    assert [row["_ng_attempt_index"] for row in run.failures] == [0, 1]


def test_no_hidden_limit_stands_below_the_concurrency(run: RunFolder) -> None:
    everyone = threading.Event()
    with stub_agent() as stub:
        stub.behave = lambda _: everyone.set() or Answer() if stub.in_flight >= 300 else Answer(after=everyone)  # type: ignore[func-returns-value]
        assert run.tasks(300).run(stub.url, "--concurrency", "300").code == 0
    assert stub.peak == 300


def test_too_few_file_descriptors_are_refused_before_anything_is_dispatched(run: RunFolder) -> None:
    run.tasks(3)
    with stub_agent() as stub:
        words = [command_path("gym"), *run.words(stub.url, "--concurrency", "1024")]
        command = ["bash", "-c", 'ulimit -n 256; exec "$@"', "bash", *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "256" in ended.stderr
    assert "ulimit -n" in ended.stderr
    assert "num_samples_in_parallel" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not stub.arrivals


def test_a_soft_limit_of_file_descriptors_is_raised(run: RunFolder) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with stub_agent() as stub:
            assert run.tasks(3).run(stub.url, "--concurrency", "1024").code == 0
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1024 * 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_budget_starts_nothing_that_its_margin_says_cannot_finish(run: RunFolder) -> None:
    words = ("++dispatch_budget_s=1.2", "++drain_margin_s=0.5", "--concurrency", "4")
    began = time.monotonic()
    with stub_agent(lambda _: Answer(after_s=0.2)) as stub:
        summary = run.tasks(100).summary(stub.url, *words, code=3)
        arrived = stub.keys
        assert max(arrival.at for arrival in stub.arrivals) - stub.arrivals[0].at < 0.7 + 0.2
        coverage = summary["coverage"]
        assert set(keys(run.rows)) == arrived
        assert coverage["scored"] == len(arrived)
        assert coverage["drained"] == 100 - len(arrived) > 0
        assert not run.failures
        assert {line["task"] for line in run.journal if line["event"] == "drained"} == set(range(100)) - {
            task for task, _ in arrived
        }
        assert time.monotonic() - began < 10
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, "--resume").code == 0
    assert keys(run.rows) == Counter({(task, 0): 1 for task in range(100)})
    assert set(stub.counts.values()) == {1}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("++dispatch_budget_s=0",), id="spent-from-the-start"),
        pytest.param(("++dispatch_budget_s=2", "++drain_margin_s=5"), id="smaller-than-the-margin"),
    ],
)
def test_a_budget_with_no_room_dispatches_nothing_and_says_so(run: RunFolder, words: tuple[str, ...]) -> None:
    with stub_agent() as stub:
        ended = run.tasks(5).run(stub.url, *words)
        assert not stub.arrivals
    assert ended.code == 3
    assert "5 still owed" in ended.out
    assert run.manifest["counts"]["drained"] == 5


def test_the_cause_reaches_the_failures_file_and_the_summary_without_its_secrets(run: RunFolder) -> None:
    said = json.dumps({"detail": "upstream 401 bad key", "hint": "Authorization: Bearer S3NT1NEL-key " + "x" * 5000})
    with stub_agent(lambda arrival: Answer(status=500, body=said.encode())) as stub:
        ended = run.tasks(5).run(stub.url, "++max_rollout_attempts=1")
    shown = [line for line in ended.out.splitlines() if "upstream 401 bad key" in line]
    assert len(shown) == 1
    assert "5 ×" in shown[0]
    assert "Traceback" not in ended.out + ended.err
    for row in run.failures:
        assert "upstream 401 bad key" in row["error_message"]
        assert len(row["error_message"]) < 2200
    files = b"".join(path.read_bytes() for path in run.paths.all_files() if path.exists())
    assert "S3NT1NEL" not in ended.out + ended.err + files.decode()


@pytest.mark.parametrize(
    ("extra", "failure_class", "attempts"),
    [
        pytest.param(
            {"_ng_failure_class": "sandbox_died", "_ng_failure_terminal": True}, "sandbox_died", 1, id="final"
        ),
        pytest.param({"_ng_failure_class": "env_lost", "_ng_failure_terminal": False}, "env_lost", 3, id="may-pass"),
    ],
)
def test_a_failure_that_the_agent_reports_is_one(
    run: RunFolder, extra: dict[str, object], failure_class: str, attempts: int
) -> None:
    with stub_agent(lambda _: Answer(reward=0.0, extra={**extra, "error_message": "it fell over"})) as stub:
        assert run.tasks(1).run(stub.url).code == 3
    assert not run.rows
    assert [(row["_ng_failure_class"], row["error_message"]) for row in run.failures] == [
        (failure_class, "it fell over")
    ] * attempts


def test_output_that_is_no_terminal_gets_plain_lines_and_few(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(after_s=0.05)) as stub:
        ended = run.tasks(40).run(stub.url, "--concurrency", "2")
    said = ended.err + ended.out
    assert "\r" not in said
    assert "\x1b" not in said
    assert sum(" done, " in line for line in said.splitlines()) == 1


def test_a_reader_that_never_reads_does_not_stop_the_run(run: RunFolder) -> None:
    """Both pipes are full before the command starts, as with a log driver that cannot keep up."""
    with stub_agent(lambda arrival: Answer(status=500 if arrival.task < 3 else 200)) as stub, full_pipe() as stuck:
        words = [command_path("gym"), *run.tasks(50).words(stub.url, "--debug")]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stuck, stderr=stuck)
        try:
            assert process.wait(40) == 3
        finally:
            process.kill()
            process.wait()
    assert len(run.rows) == 47


def test_a_reader_that_leaves_does_not_stop_the_run(run: RunFolder) -> None:
    with stub_agent() as stub:
        words = " ".join([command_path("gym"), *run.tasks(20).words(stub.url)])
        command = ["bash", "-c", f"set -o pipefail; {words} 2>&1 | head -1"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, len(run.rows)) == (0, 20)
    assert "Traceback" not in ended.stderr + ended.stdout


def test_rows_go_to_the_agent_that_they_or_the_settings_name(run: RunFolder) -> None:
    nameless = [{key: value for key, value in agent_row(n).items() if key != "agent_ref"} for n in range(2)]
    with stub_agent() as stub:
        assert run.tasks([*nameless, agent_row(2)]).run(stub.url, f"++agent_name={AGENT}").code == 0
    assert len(stub.keys) == 3
    assert {row["agent_ref"]["name"] for row in run.rows} == {AGENT}
    assert ArtifactPaths(run.paths.results).lock.exists() is False
