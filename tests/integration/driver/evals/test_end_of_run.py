"""A run's own aggregate, written by the driver at its end, and what the commands make of the artifacts."""

import json
from pathlib import Path
from typing import Any

import pytest

from integration.driver.runs import RunFolder, gym
from integration.driver.stub_agent import AGENT, Answer, Arrival, stub_agent


def entry_of(run: RunFolder) -> dict[str, Any]:
    entries: list[dict[str, Any]] = json.loads(run.paths.aggregate_metrics.read_bytes())
    assert [entry["agent_ref"]["name"] for entry in entries] == [AGENT]
    return entries[0]


def odd_answers(arrival: Arrival) -> Answer:
    """One rollout of each kind that a score must not confuse."""
    answers = {
        3: Answer(reward=0.0, extra={"mask_sample": True, "failure_kind": "env_lost"}),
        4: Answer(reward=0.0, extra={"truncated": True}),
        5: Answer(reward=1.0, extra={"failure_kind": "agent_timeout"}),
        6: Answer(reward=0.0, usage={"input_tokens": 0, "output_tokens": 0}),
        7: Answer(status=503),
    }
    return answers.get(arrival.task, Answer(reward=1.0))


def test_a_run_ends_with_an_aggregate_that_agrees_with_its_summary(run: RunFolder) -> None:
    with stub_agent(odd_answers) as stub:
        summary = run.tasks(8).summary(stub.url, "++max_rollout_attempts=2", code=3)
    entry = entry_of(run)
    assert entry["coverage"] == summary["coverage"]
    assert entry["coverage"] == {**entry["coverage"], "expected": 8, "scored": 6, "masked": 1, "failed": 1}
    assert entry["reward"]["mean"] == pytest.approx(summary["reward"]["mean"]) == pytest.approx(4 / 6)
    assert entry["masked_by_kind"] == {"env_lost": 1}
    assert (entry["truncated"], entry["scored_with_failure_kind"]) == (1, {"agent_timeout": 1})
    assert entry["never_ran"] == {"count": 1, "first_keys": [[6, 0]]}
    assert {kind: each["total"] for kind, each in entry["tokens"].items()} == {"input": 60, "output": 30}
    assert stub.counts[7, 0] == 2


def test_an_agent_server_is_asked_for_its_own_aggregate(run: RunFolder) -> None:
    with stub_agent() as stub:
        assert run.tasks(2).run(stub.url).code == 0
    assert stub.reports.count("/aggregate_metrics") == 1
    assert entry_of(run)["reward"]["mean"] == 1.0


def test_no_aggregate_where_none_is_wanted_and_it_can_be_made_later(run: RunFolder) -> None:
    with stub_agent() as stub:
        assert run.tasks(2).run(stub.url, "++disable_aggregation=true").code == 0
    assert not run.paths.aggregate_metrics.exists()
    assert gym("eval", "aggregate", "--input", str(run.paths.results)).code == 0
    assert entry_of(run)["coverage"]["scored"] == 2


def test_zeros_are_in_the_aggregate_only_and_only_where_asked_for(run: RunFolder) -> None:
    with stub_agent(lambda arrival: Answer(status=400 if arrival.task == 1 else 200)) as stub:
        summary = run.tasks(3).summary(stub.url, "++count_failure_classes_as_zero=[agent_request_failed]", code=3)
    assert summary["reward"]["mean"] == 1.0
    entry = entry_of(run)
    assert (entry["reward"]["mean"], entry["coverage"]["counted_as_zero"]) == (pytest.approx(2 / 3), 1)
    assert len(run.rows) == 2


def test_a_run_of_nothing_says_zero_and_null(run: RunFolder) -> None:
    with stub_agent() as stub:
        assert run.tasks(2).run(stub.url, "--limit", "0").code == 0
    entries = json.loads(run.paths.aggregate_metrics.read_bytes())
    assert (entries[0]["coverage"]["expected"], entries[0]["reward"]["mean"]) == (0, None)


def test_active_time_is_apart_from_waiting_for_a_slot(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(after_s=0.1)) as stub:
        assert run.tasks(6).run(stub.url, "--concurrency", "1").code == 0
    timings = entry_of(run)["timings"]
    assert timings["active_ms"]["p50"] < timings["admission_wait_ms"]["max"]
    for row in run.rows:
        assert all(value >= 0 for value in row["rollgym_timings"].values())


def test_shards_merge_to_what_one_run_would_have_been(tmp_path: Path) -> None:
    shards = [RunFolder(tmp_path / name) for name in ("a", "b")]
    with stub_agent(lambda arrival: Answer(reward=arrival.task % 2)) as stub:
        for number, shard in enumerate(shards):
            shard.folder.mkdir()
            rows = [
                {"responses_create_params": {"input": "x"}, "agent_ref": {"name": AGENT}, "_ng_task_index": task}
                for task in range(number, 10, 2)
            ]
            assert shard.tasks(rows).run(stub.url, "--num-repeats", "2").code == 0
    output = tmp_path / "merged.jsonl"
    pattern = str(tmp_path / "*" / "out" / "*.jsonl")
    ended = gym("eval", "aggregate", "--input", pattern, "--output", str(output), "--json")
    found = json.loads(ended.out)
    assert found["coverage"] == {**found["coverage"], "expected": 20, "scored": 20}
    assert found["agents"][0]["reward"]["mean"] == 0.5
    assert [json.loads(line)["_ng_task_index"] for line in output.read_text().splitlines()] == sorted([*range(10)] * 2)


def test_a_run_keeps_samples_for_its_report(run: RunFolder) -> None:
    with stub_agent(lambda _: Answer(after_s=0.05)) as stub:
        assert run.tasks(12).run(stub.url, "--concurrency", "4", "--num-repeats", "2").code == 0
    ended = gym("eval", "report", str(run.paths.results.parent), "--json")
    assert ended.code == 0
    plots = json.loads(ended.out)["plots"]
    assert {"rewards", "pass-at-k", "latency", "rate", "in-flight", "tokens"} <= set(plots)
    samples = [json.loads(line) for line in run.paths.samples.read_text().splitlines()]
    assert len(samples) >= 2
    assert all(sample["lag_max_ms"] >= 0 for sample in samples)
