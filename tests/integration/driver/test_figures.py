"""The numbers of a run: over what was scored, beside what was not, with waiting and work apart."""

import json

import pytest

from integration.driver.runs import RunFolder
from integration.driver.stub_agent import Answer, Arrival, stub_agent

MASKED = {"mask_sample": True, "failure_kind": "env_lost", "failure_reason": "the session died"}


def test_masked_rollouts_are_rows_that_no_mean_counts(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(reward=0.0, extra=MASKED) if arrival.task == 3 else Answer()) as stub:
        summary = run.tasks(4).summary(stub.url)
    assert stub.counts.total() == 4
    assert summary["reward"]["mean"] == 1.0
    assert summary["coverage"] == {
        "expected": 4, "scored": 3, "masked": 1, "failed": 0, "drained": 0, "cancelled": 0, "missing": 0,
    }  # fmt: skip
    assert summary["masked_by_kind"] == {"env_lost": 1}
    assert summary["tokens"]["input"] == {"total": 40, "reported_by": 4, "of": 4}
    assert len(run.rows) == 4


def test_an_agent_that_used_up_its_turns_is_a_scored_row_and_not_tried_again(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(reward=0.0, extra={"truncated": True})) as stub:
        summary = run.tasks(2).summary(stub.url)
    assert set(stub.counts.values()) == {1}
    assert (summary["reward"]["mean"], summary["truncated"], len(run.rows)) == (0.0, 2, 2)


def test_a_real_reward_wins_over_an_error_beside_it_and_is_counted_apart(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(reward=1.0, extra={"failure_kind": "agent_timeout"})) as stub:
        summary = run.tasks(2).summary(stub.url)
    assert summary["scored_with_failure_kind"] == {"agent_timeout": 2}
    assert summary["coverage"]["scored"] == 2
    assert (len(run.rows), run.failures) == (2, [])
    assert run.rows[0]["failure_kind"] == "agent_timeout"


def test_rows_whose_model_read_nothing_are_shown_and_not_rescored(run: RunFolder) -> None:
    nothing = Answer(reward=0.0, usage={"input_tokens": 0, "output_tokens": 0})
    with stub_agent(lambda arrival: nothing if arrival.task == 1 else Answer()) as stub:
        ended = run.tasks(3).run(stub.url)
        summary = run.summary(stub.url, "--resume")
    assert "1 row(s) whose model read no token (first: 1-0)" in ended.out
    assert summary["never_ran"] == {"count": 1, "first_keys": [[1, 0]]}
    assert summary["coverage"]["scored"] == 3
    assert summary["reward"]["mean"] == pytest.approx(2 / 3)


def test_cached_tokens_are_not_added_and_failed_attempts_have_a_total_of_their_own(run: RunFolder) -> None:
    usage = {"input_tokens": 100, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 30}}
    with stub_agent(lambda arrival: Answer(usage=None if arrival.task == 2 else usage)) as stub:
        tokens = run.tasks(3).summary(stub.url)["tokens"]
    assert tokens == {
        "input": {"total": 200, "reported_by": 2, "of": 3},
        "output": {"total": 100, "reported_by": 2, "of": 3},
        "cached": {"total": 60, "reported_by": 2, "of": 3},
    }


def test_waiting_for_a_slot_is_not_working(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(after_s=0.1)) as stub:
        summary = run.tasks(8).summary(stub.url, "--concurrency", "1")
    start = summary["this_start"]
    assert 0.1 <= start["latency_s"]["p50"] < 0.4
    assert start["admission_wait_s"]["max"] > 0.7
    for row in run.rows:
        timings = row["rollgym_timings"]
        assert set(timings) == {"admission_wait_ms", "active_ms"}
        assert timings["admission_wait_ms"] >= 0
        assert timings["active_ms"] >= 100
    last = max(run.rows, key=lambda row: row["rollgym_timings"]["admission_wait_ms"])["rollgym_timings"]
    assert last["admission_wait_ms"] + last["active_ms"] <= start_ms(summary)


def start_ms(summary: dict[str, dict[str, float]]) -> float:
    return summary["this_start"]["elapsed_s"] * 1000 + 100


def test_a_retrys_wait_is_admission_and_its_earlier_attempt_is_not_its_work(run: RunFolder) -> None:
    def behave(arrival: Arrival) -> Answer:
        return Answer(status=500, after_s=0.3) if arrival.nth == 1 else Answer()

    with stub_agent(behave) as stub:
        assert run.tasks(1).run(stub.url).code == 0
    assert run.rows[0]["rollgym_timings"]["active_ms"] < 250
    assert run.failures[0]["rollgym_timings"]["active_ms"] >= 300


@pytest.mark.parametrize("count", [1, 2, 3])
def test_percentiles_of_few_rollouts_are_never_above_the_longest(run: RunFolder, count: int) -> None:
    with stub_agent() as stub:
        latency = run.tasks(count).summary(stub.url)["this_start"]["latency_s"]
    assert latency["count"] == count
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]


@pytest.mark.parametrize(
    ("words", "kept"),
    [((), True), (("++capture_payloads=false",), False), (("++capture_payloads=true",), True)],
    ids=["unset", "false", "true"],
)
def test_an_agents_recorded_calls_are_kept_unless_told_otherwise(
    run: RunFolder, words: tuple[str, ...], kept: bool
) -> None:
    call = {"model_call_id": "c", "request": {"big": 1}, "response": {"big": 2}, "token_stats": {"prompt_tokens": 7}}
    trajectory = {
        "invocations": [{"invocation_id": "i", "model_calls": [{"model_call_id": "c"}]}],
        "model_calls": [call],
    }
    with stub_agent(lambda _: Answer(extra={"ng_trajectory": trajectory})) as stub:
        assert run.tasks(1).run(stub.url, *words).code == 0
    (row,) = run.rows
    assert ("request" in row["ng_trajectory"]["model_calls"][0]) is kept
    assert row["ng_perf"]["prompt_tokens"] == 7
    assert row["ng_perf"]["token_observability_coverage"] == 1.0


@pytest.mark.parametrize("enabled", ["true", "false"])
@pytest.mark.parametrize("perf", [{"num_turns": 1}, "fast"], ids=str)
def test_an_agents_own_idea_of_its_performance_breaks_nothing(run: RunFolder, perf: object, enabled: str) -> None:
    with stub_agent(lambda _: Answer(extra={"ng_perf": perf})) as stub:
        assert run.tasks(2).run(stub.url, f"++observability_enabled={enabled}").code == 0
        assert run.run(stub.url, "--resume", f"++observability_enabled={enabled}").code == 0
    assert len(run.rows) == 2


def test_the_manifest_the_summary_and_the_files_agree(run: RunFolder) -> None:
    def behave(arrival: Arrival) -> Answer:
        if arrival.task % 5 == 0:
            return Answer(status=500)
        return Answer(reward=0.0, extra=MASKED) if arrival.task % 5 == 1 else Answer()

    with stub_agent(behave) as stub:
        summary = run.tasks(50).summary(stub.url, code=3)
    manifest = run.manifest
    assert manifest["counts"] == {
        "succeeded": 30,
        "masked": 10,
        "failed": 10,
        "drained": 0,
        "cancelled": 0,
        "missing": 0,
    }
    assert (manifest["state"], manifest["exit_code"], summary["exit_code"]) == ("incomplete", 3, 3)
    assert len(run.rows) == 40
    assert len(run.failures) == 30
    events = [line["event"] for line in run.journal]
    assert {event: events.count(event) for event in ("succeeded", "masked", "failed")} == {
        "succeeded": 30, "masked": 10, "failed": 30,
    }  # fmt: skip
    assert events.count("dispatched") == stub.counts.total() == 70
    assert json.dumps(summary, allow_nan=False)
