"""The files of a run: each rollout once, whatever was killed, torn, doubled or started again over them."""

import json
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.driver.runs import RunFolder, agent_row, gym, keys
from integration.driver.stub_agent import AGENT, Answer, stub_agent
from rollgym.common.failures import FailureClass
from rollgym.driver.artifacts.lock import output_lock


def everything(count: int) -> Counter[tuple[int, int]]:
    return Counter({(task, 0): 1 for task in range(count)})


def test_a_bad_line_in_the_middle_stops_a_resume_before_any_dispatch_unless_repair_is_asked(run: RunFolder) -> None:
    with stub_agent() as stub:
        assert run.tasks(10).run(stub.url).code == 0
        lines = run.paths.results.read_bytes().split(b"\n")
        lines[4] = b'{"x":'
        run.paths.results.write_bytes(b"\n".join(lines))
        before, arrived = run.paths.results.read_bytes(), len(stub.arrivals)
        ended = run.run(stub.url, "--resume")
        assert (ended.code, len(stub.arrivals)) == (2, arrived)
        assert f"{run.paths.results} line 5 is bad" in ended.err
        assert run.paths.results.read_bytes() == before
        assert run.run(stub.url, "--resume", "++repair=true").code == 0
        assert len(stub.arrivals) == arrived + 1
    assert keys(run.rows) == everything(10)
    assert run.paths.results.with_name("rollouts.jsonl.bad").read_bytes() == b'{"x":\n'


def test_a_torn_last_line_is_repaired_said_and_run_again(run: RunFolder) -> None:
    with stub_agent() as stub:
        assert run.tasks(5).run(stub.url).code == 0
        whole = run.paths.results.read_bytes()
        run.paths.results.write_bytes(whole[:-20])
        ended = run.run(stub.url, "--resume")
        assert ended.code == 0
        assert "torn last line" in ended.err
        assert len(stub.arrivals) == 6
    assert keys(run.rows) == everything(5)
    assert run.manifest["counts"]["succeeded"] == 5


def test_doubled_rows_count_once_and_are_said(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(reward=float(arrival.task))) as stub:
        first = run.tasks(10).summary(stub.url)
        content = run.paths.results.read_bytes()
        doubled = b"".join(line + b"\n" for line in content.split(b"\n")[7:10])
        stranger = json.dumps({**run.rows[0], "_ng_task_index": 99}).encode() + b"\n"
        run.paths.results.write_bytes(content + doubled + stranger)
        ended = run.run(stub.url, "--resume", "--json")
        assert len(stub.arrivals) == 10
    assert ended.code == 0
    assert "3 row(s) of a rollout that has one" in ended.err
    assert "1 row(s) of a rollout that is not owed" in ended.err
    assert json.loads(ended.out)["reward"] == first["reward"]
    assert keys(run.rows) == everything(10)


def test_a_second_run_at_the_same_place_is_refused_and_nothing_is_touched(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(status=500 if arrival.task < 3 else 200)) as stub:
        assert run.tasks(5).run(stub.url, "++max_rollout_attempts=1").code == 3
        before = {path: path.read_bytes() for path in run.paths.results.parent.iterdir() if path.is_file()}
        arrived = len(stub.arrivals)
        ended = run.run(stub.url)
        assert (ended.code, len(stub.arrivals)) == (2, arrived)
    assert "--resume" in ended.err
    assert "--overwrite" in ended.err
    assert {path: path.read_bytes() for path in run.paths.results.parent.iterdir() if path.is_file()} == before


def test_overwriting_leaves_nothing_of_the_earlier_run(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(status=500 if arrival.task < 3 else 200)) as stub:
        assert run.tasks(5).run(stub.url, "++max_rollout_attempts=1").code == 3
        first = run.manifest["run_id"]
        run.paths.failures.with_name("rollouts_failures.jsonl.torn").write_bytes(b"{\n")
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, "--overwrite").code == 0
        assert run.run(stub.url, "--resume").code == 0
    assert run.failures == []
    assert run.manifest["run_id"] != first
    assert keys(run.rows) == everything(5)
    assert {line["note"] for line in run.journal if line["event"] == "started"} == {run.manifest["run_id"]}
    assert not list(run.paths.results.parent.glob("*.torn"))


def test_a_task_file_is_never_overwritten_by_the_run_that_reads_it(run: RunFolder) -> None:
    run.tasks(3)
    run.paths.results.parent.mkdir()
    link = run.paths.results.parent / "rollouts.jsonl"
    link.symlink_to(run.input)
    other = run.paths.results.parent / "x_materialized_inputs.jsonl"
    other.write_bytes(run.input.read_bytes())
    with stub_agent() as stub:
        ended = run.run(stub.url, "--overwrite")
        words = ("--no-serve", "--head", stub.url, "--input", str(other), "--output", str(other.with_name("x.jsonl")))
        again = gym("eval", "run", *words, "--overwrite")
        assert not stub.arrivals
    for each in (ended, again):
        assert each.code == 2
        assert "would overwrite the task file" in each.err
    assert len(run.input.read_text().splitlines()) == len(other.read_text().splitlines()) == 3


def test_finally_failed_rollouts_stay_failed_on_resume_until_asked_for(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(hang=arrival.task == 1)) as stub:
        words = ("++rollout_timeout_s=0.2", "++max_rollout_attempts=2")
        assert run.tasks(3).run(stub.url, *words).code == 3
        assert stub.counts[1, 0] == 2
        assert run.run(stub.url, "--resume", *words).code == 3
        assert stub.counts[1, 0] == 2
        stub.behave = lambda _: Answer()
        assert run.run(stub.url, "--resume", "++retry_failed=true", *words).code == 0
    assert stub.counts[1, 0] == 3
    assert stub.arrivals[-1].row["_ng_attempt_index"] == 2
    assert keys(run.rows) == everything(3)


def test_resuming_a_complete_run_runs_nothing_and_sums_up_again(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(reward=arrival.task / 2)) as stub:
        first = run.tasks(4).summary(stub.url)
        again = run.summary(stub.url, "--resume")
        assert len(stub.arrivals) == 4
    assert again["reward"] == first["reward"]
    assert again["coverage"] == first["coverage"]
    assert again["this_start"]["done"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("++limit=2",), "limit: was None, now 2"),
        (("--num-repeats", "2"), "num_repeats"),
        (("++max_steps=3",), "max_steps"),
    ],
    ids=["limit", "repeats", "steps"],
)
def test_a_resume_with_other_settings_is_refused_with_what_differs(
    run: RunFolder, words: tuple[str, ...], said: str
) -> None:
    with stub_agent() as stub:
        assert run.tasks(3).run(stub.url).code == 0
        ended = run.run(stub.url, "--resume", *words)
    assert ended.code == 2
    assert said in ended.err


def test_a_resume_over_a_changed_task_file_is_refused(run: RunFolder) -> None:
    with stub_agent() as stub:
        assert run.tasks(3).run(stub.url).code == 0
        ended = run.tasks(4).run(stub.url, "--resume")
    assert ended.code == 2
    assert "has changed" in ended.err


def test_a_second_driver_on_the_same_output_is_refused(run: RunFolder) -> None:
    with stub_agent() as stub:
        run.paths.results.parent.mkdir()
        with output_lock(run.paths.lock):
            ended = run.tasks(2).run(stub.url)
        assert ended.code == 2
        assert f"another driver writes this output (process {os.getpid()}" in ended.err
        assert not stub.arrivals
        assert run.run(stub.url).code == 0


@pytest.mark.parametrize("words", [("--limit", "0"), ("++limit=0",)], ids=["flag", "override"])
def test_a_limit_of_zero_runs_nothing_and_is_a_success(run: RunFolder, words: tuple[str, ...]) -> None:
    with stub_agent() as stub:
        summary = run.tasks(5).summary(stub.url, *words)
        assert not stub.arrivals
        assert run.summary(stub.url, "--resume", *words)["coverage"]["expected"] == 0
    assert summary["coverage"]["expected"] == 0
    assert summary["reward"]["mean"] is None
    assert (run.rows, run.failures) == ([], [])


def test_identical_rows_share_a_task_and_no_two_lines_a_key(run: RunFolder) -> None:
    with stub_agent() as stub:
        run.tasks([agent_row(0), agent_row(1), agent_row(0)])
        assert run.run(stub.url, "--num-repeats", "4").code == 0
    assert keys(run.rows) == Counter(
        {(0, rollout): 1 for rollout in range(8)} | {(1, rollout): 1 for rollout in range(4)}
    )
    for row in run.rows:
        assert type(row["_ng_task_index"]) is type(row["_ng_rollout_index"]) is int


def test_a_caller_may_bring_its_own_task_indices(run: RunFolder) -> None:
    with stub_agent() as stub:
        run.tasks([agent_row(n, _ng_task_index=index) for n, index in enumerate((7, 3, 7))])
        assert run.run(stub.url).code == 0
    assert keys(run.rows) == Counter([(7, 0), (3, 0), (7, 1)])


ODD_TEXT = 'a\u2028b\u0085c "quoted" \\ é 😀 \ud800'


def test_odd_text_comes_through_whole_in_both_directions(run: RunFolder) -> None:
    row = agent_row(0)
    row["responses_create_params"]["input"] = ODD_TEXT
    body = json.dumps({"reward": 1.0, "response": {"text": ODD_TEXT}}).encode()
    with stub_agent(lambda _: Answer(body=body)) as stub:
        assert run.tasks([row]).run(stub.url).code == 0
        assert stub.arrivals[0].row["responses_create_params"]["input"] == ODD_TEXT
        assert run.run(stub.url, "--resume").code == 0
        assert len(stub.arrivals) == 1
    assert run.rows[0]["response"]["text"] == ODD_TEXT
    assert run.rows[0]["responses_create_params"]["input"] == ODD_TEXT


def test_a_failure_whose_message_is_odd_still_counts_as_an_attempt(run: RunFolder) -> None:
    body = json.dumps({"message": ODD_TEXT}).encode()
    with stub_agent(lambda _: Answer(status=500, body=body)) as stub:
        assert run.tasks(1).run(stub.url, "++max_rollout_attempts=2").code == 3
        assert run.run(stub.url, "--resume", "++max_rollout_attempts=2").code == 3
    assert stub.counts.total() == 2
    assert run.failures[0]["error_message"].endswith(ODD_TEXT)


@pytest.mark.parametrize(
    ("raw", "reward"),
    [("true", 1.0), ("-2", -2.0), ("1e200", 1e200)],
    ids=["true", "negative", "huge"],
)
def test_a_reward_that_is_a_number_is_scored(run: RunFolder, raw: str, reward: float) -> None:
    with stub_agent(lambda arrival: Answer(reward_raw=raw)) as stub:
        summary = run.tasks(2).summary(stub.url)
    assert [row["reward"] for row in run.rows] == [reward, reward]
    assert summary["reward"]["mean"] == reward


@pytest.mark.parametrize(
    "raw",
    ['"nan"', "NaN", "1e999", "1" + "0" * 400, "null"],
    ids=lambda raw: raw[:9],
)
def test_a_reward_that_is_none_is_a_failure_and_never_zero(run: RunFolder, raw: str) -> None:
    with stub_agent(lambda arrival: Answer(reward_raw=raw) if arrival.task else Answer()) as stub:
        summary = run.tasks(2).summary(stub.url, code=3)
    assert stub.counts[1, 0] == 1, "a wrong answer stays what it is"
    assert [row["_ng_failure_class"] for row in run.failures] == [FailureClass.INVALID_REWARD]
    assert summary["reward"]["mean"] == 1.0
    assert keys(run.rows) == everything(1)


def test_an_answer_without_a_reward_is_a_failure(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(body=b'{"response": {}}')) as stub:
        assert run.tasks(1).run(stub.url).code == 3
    assert [row["_ng_failure_class"] for row in run.failures] == [FailureClass.INVALID_REWARD]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file of this process can grow over 60,000 bytes, as on a disk with no room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_the_run_with_whole_lines_and_a_resume_completes_it(
    run: RunFolder, request: pytest.FixtureRequest
) -> None:
    with stub_agent(lambda _: Answer(text="x" * 5000)) as stub:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        request.getfixturevalue("small_disk")
        ended = run.tasks(40).run(stub.url, "--concurrency", "4")  # fewer lines at once than there is room for
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert ended.code == 1, ended
        assert "File too large" in ended.out
        assert "--resume" in ended.out
        assert "Traceback" not in ended.err + ended.out
        written = keys(run.rows)
        assert 0 < written.total() < 40
        assert run.manifest["state"] == "failed"
        assert run.run(stub.url, "--resume").code == 0
        assert len(stub.arrivals) >= 40
    assert keys(run.rows) == everything(40)


def test_secrets_reach_no_file(run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    settings: dict[str, Any] = {
        "token": "S3NT1NEL",
        "policy": {"api_key": "S3NT1NEL", "base_url": "http://user:S3NT1NEL@127.0.0.1:9/v1"},
    }
    file.write_text(json.dumps(settings))
    body = b'{"detail": "http://user:S3NT1NEL@host said no", "api_key": "S3NT1NEL"}'
    with stub_agent(lambda arrival: Answer(status=500, body=body) if arrival.task else Answer()) as stub:
        ended = run.tasks(2).run(stub.url, "--config", str(file), "--debug")
        assert ended.code == 3
    found = b"".join(path.read_bytes() for path in run.paths.results.parent.rglob("*") if path.is_file())
    assert b"S3NT1NEL" not in found
    assert "S3NT1NEL" not in ended.out + ended.err


def test_a_row_for_an_agent_that_is_not_registered_has_no_server_to_run_it(run: RunFolder) -> None:
    with stub_agent() as stub:
        ended = run.tasks([agent_row(0, agent_ref={"name": "other"})]).run(stub.url, "++servers_wait_s=0")
    assert ended.code == 2
    assert "no resources server is registered" in ended.err
    assert AGENT not in ended.err
