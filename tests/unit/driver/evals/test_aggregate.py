"""What an aggregate counts, and over what: masks, failures, zeros, truncation, tokens, times."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import ZeroRules, aggregate, write_aggregate
from unit.driver.evals.artifacts import event, failure, masked, owed, result, write_run


def entry_of(run: ArtifactPaths, **options: Any) -> dict[str, Any]:
    """The one agent's entry of the aggregate file."""
    write_aggregate(run, **options)
    entries: list[dict[str, Any]] = json.loads(run.aggregate_metrics.read_bytes())
    assert len(entries) == 1
    return entries[0]


def test_masked_rollouts_leave_quality_and_stay_in_coverage(tmp_path: Path) -> None:
    usage = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    run = write_run(tmp_path, [result(0), result(1), result(2), masked(3, response=usage)])
    entry = entry_of(run)
    assert entry["agent_metrics"]["mean/reward"] == 1.0
    assert entry["agent_metrics"]["pass@1/accuracy"] == 100.0
    assert entry["coverage"]["masked"] == 1
    assert entry["reward_series"]["unmasked"]["mean"] == 1.0
    assert entry["reward_series"]["all"] == {**entry["reward_series"]["all"], "mean": 0.75, "rollouts": 4}
    assert entry["masked_by_kind"] == {"env_lost": 1}
    assert entry["key_metrics"]["coverage/masked_rollouts"] == 1
    assert entry["tokens"]["input"] == {"total": 10, "reported_by": 1, "of": 4}


def test_without_a_mask_there_is_one_series(tmp_path: Path) -> None:
    entry = entry_of(write_run(tmp_path, [result(0)]))
    assert "reward_series" not in entry
    assert not [name for name in entry["agent_metrics"] if name.startswith("coverage/")]


def test_a_masked_rollout_is_neither_a_pass_nor_a_failure(tmp_path: Path) -> None:
    entry = entry_of(write_run(tmp_path, [result(0, 0), masked(0, 1), result(0, 2, 0.0)]))
    metrics = entry["agent_metrics"]
    assert (metrics["pass@1/accuracy"], metrics["pass@2/accuracy"]) == (50.0, 100.0)
    assert "pass@3/accuracy" not in metrics


def test_when_everything_is_masked_there_is_no_mean(tmp_path: Path) -> None:
    entry = entry_of(write_run(tmp_path, [masked(0), masked(1)]))
    assert entry["reward"]["mean"] is None
    assert entry["agent_metrics"]["coverage/fully_masked_tasks"] == 2
    assert "mean/reward" not in entry["agent_metrics"]


@pytest.mark.parametrize(
    ("zeros", "mean", "counted"),
    [
        (ZeroRules(), 1.0, None),
        (ZeroRules(missing=True), 0.5, 1),
        (ZeroRules(failure_classes=frozenset({"env_busy"})), 0.5, 1),
        (ZeroRules(failure_classes=frozenset({"model_error"})), 1.0, None),
        (ZeroRules(missing=True, failure_classes=frozenset({"env_busy"})), 1 / 3, 2),
    ],
    ids=["off", "missing-but-no-excluded-class", "a-class", "another-class", "both"],
)
def test_zeros_only_where_asked_for(tmp_path: Path, zeros: ZeroRules, mean: float, counted: int | None) -> None:
    run = write_run(
        tmp_path,
        [result(0)],
        inputs=[owed(0), owed(1), owed(2)],
        failures=[failure(1, failure_class="env_busy")],
        journal=[event("failed", key=(1, 0), terminal=True)],
    )
    before = run.results.read_bytes()
    entry = entry_of(run, zeros=zeros)
    assert entry["agent_metrics"]["mean/reward"] == pytest.approx(mean)
    assert entry["coverage"].get("counted_as_zero") == counted
    assert (entry["coverage"]["scored"], entry["coverage"]["failed"], entry["coverage"]["missing"]) == (1, 1, 1)
    assert run.results.read_bytes() == before


def test_a_masked_failure_never_counts_as_zero(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0)], failures=[failure(1, mask_sample=True)])
    entry = entry_of(run, zeros=ZeroRules(failure_classes=frozenset({"model_error"})))
    assert entry["agent_metrics"]["mean/reward"] == 1.0


def test_a_class_that_nothing_failed_with_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0)], inputs=[owed(0), owed(1)], failures=[failure(1)])
    found = aggregate([run], zeros=ZeroRules(failure_classes=frozenset({"modelerror"})))
    assert found.remarks[-1] == "no rollout failed with class modelerror; there are model_error"


def test_agents_that_used_themselves_up_are_scored_and_counted(tmp_path: Path) -> None:
    rows = [result(0, reward=0.0, truncated=True), result(1, response={"status": "incomplete"}), result(2)]
    entry = entry_of(write_run(tmp_path, rows))
    assert (entry["truncated"], entry["coverage"]["scored"]) == (2, 3)
    assert entry["reward"]["mean"] == pytest.approx(2 / 3)


def test_a_valid_reward_beside_an_error_counts_and_is_counted_apart(tmp_path: Path) -> None:
    entry = entry_of(write_run(tmp_path, [result(0, failure_kind="agent_timeout")]))
    assert entry["reward"]["mean"] == 1.0
    assert entry["scored_with_failure_kind"] == {"agent_timeout": 1}


def test_rows_that_read_no_token_are_named_not_rescored(tmp_path: Path) -> None:
    nothing = {"usage": {"input_tokens": 0, "output_tokens": 0}}
    entry = entry_of(write_run(tmp_path, [result(0), result(7, 2, 0.0, response=nothing)]))
    assert entry["never_ran"] == {"count": 1, "first_keys": [[7, 2]]}
    assert entry["reward"]["mean"] == 0.5


def test_cached_tokens_are_part_of_the_input(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 50,
        "total_tokens": 150,
        "input_tokens_details": {"cached_tokens": 30},
    }
    entry = entry_of(write_run(tmp_path, [result(0, response={"usage": usage}), result(1)]))
    assert {kind: each["total"] for kind, each in entry["tokens"].items()} == {"input": 100, "output": 50, "cached": 30}
    assert entry["tokens"]["cached"] == {"total": 30, "reported_by": 1, "of": 2}
    assert entry["agent_metrics"]["mean/total_tokens"] == 150


def test_tokens_of_failed_attempts_stand_apart(tmp_path: Path) -> None:
    spent = [failure(0, rollgym_tokens={"input": 7, "output": 2}), failure(1, rollgym_tokens="?"), failure(1)]
    run = write_run(tmp_path, [result(0, response={"usage": {"input_tokens": 100}})], failures=spent)
    entry = entry_of(run)
    assert entry["tokens"] == {"input": {"total": 100, "reported_by": 1, "of": 1}}
    assert entry["tokens_of_failed_attempts"]["input"] == {"total": 7, "reported_by": 1, "of": 3}
    assert entry["agent_metrics"]["mean/input_tokens"] == 100


def test_waiting_and_working_stay_apart_and_sum_up(tmp_path: Path) -> None:
    rows = [
        result(task, rollgym_timings={"admission_wait_ms": 1000.0 * task, "session_wait_ms": 10.0, "active_ms": 1000.0})
        for task in range(10)
    ]
    timings = entry_of(write_run(tmp_path, rows))["timings"]
    assert timings["active_ms"]["p50"] == 1000.0
    assert timings["admission_wait_ms"]["max"] == 9000.0
    assert timings["total_ms"]["max"] == 9000.0 + 10.0 + 1000.0
    assert all(timings["active_ms"][q] <= timings["active_ms"]["max"] for q in ("p50", "p90", "p99"))


def test_a_task_that_never_scored_is_listed_with_null(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0), masked(1)], inputs=[owed(0), owed(1), owed(2)], failures=[failure(2)])
    groups = {group["_ng_task_index"]: group for group in entry_of(run)["group_level_metrics"]}
    assert (groups[0]["mean/reward"], groups[1]["mean/reward"], groups[2]["mean/reward"]) == (1.0, None, None)
    assert groups[1]["masked_num_rollouts"] == 1
    assert groups[2]["missing_num_rollouts"] == 1


def test_duplicates_weigh_once(tmp_path: Path) -> None:
    rows = [result(0), result(1, reward=0.0), result(0), result(0)]
    once = entry_of(write_run(tmp_path / "once", rows[:2]))
    assert entry_of(write_run(tmp_path / "twice", rows)) == once


def test_each_agent_has_its_own_entry(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0), result(0, 1, 0.0, agent_ref={"name": "other"})])
    write_aggregate(run)
    entries = json.loads(run.aggregate_metrics.read_bytes())
    assert [(entry["agent_ref"]["name"], entry["reward"]["mean"]) for entry in entries] == [
        ("agent", 1.0),
        ("other", 0.0),
    ]


def test_a_run_that_owes_nothing_says_zero_and_null(tmp_path: Path) -> None:
    entry = entry_of(write_run(tmp_path, inputs=[]))
    assert entry["coverage"]["expected"] == 0
    assert entry["reward"]["mean"] is None
    assert "NaN" not in json.dumps(entry)


def test_rewards_too_large_to_sum_leave_their_metrics_out(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0, 0, 1.7e308), result(0, 1, 1.7e308), result(1, 0, -1.7e308)])
    metrics = entry_of(run)["agent_metrics"]
    assert metrics["max/reward"] == 1.7e308
    assert "std/reward" not in metrics


def test_what_an_agent_server_adds_stands_beside_what_is_ours(tmp_path: Path) -> None:
    answer = {"agent_metrics": {"mean/reward": 99.0, "elo": 1200}, "key_metrics": {"elo": 1200, "mean/reward": 99.0}}
    entry = entry_of(write_run(tmp_path, [result(0)]), answers={"agent": answer})
    assert (entry["agent_metrics"]["mean/reward"], entry["agent_metrics"]["elo"]) == (1.0, 1200)
    assert entry["key_metrics"] == {"elo": 1200, "mean/reward": 1.0}
