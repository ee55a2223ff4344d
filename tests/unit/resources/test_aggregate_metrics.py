"""`/aggregate_metrics`: statistics of what was measured, and a count of what was not."""

import json
from typing import Any

import pytest

from rollgym.common.errors import BadRequest
from rollgym.resources.aggregate_metrics import aggregate


def rollout(task: int, repeat: int, reward: float, **fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": repeat, "reward": reward, "mask_sample": False, **fields}


def aggregated(*rollouts: dict[str, Any]) -> dict[str, Any]:
    return aggregate(json.dumps({"verify_responses": rollouts}).encode())


def test_nothing_measured_is_nothing_said() -> None:
    assert aggregated() == {
        "agent_metrics": {}, "key_metrics": {}, "group_level_metrics": [], "repeat_level_metrics": [],
    }  # fmt: skip


def test_statistics_of_every_number() -> None:
    metrics = aggregated(rollout(0, 0, 1.0, num_steps=3), rollout(1, 0, 0.0, num_steps=5))["agent_metrics"]
    assert {name: metrics[f"{name}/reward"] for name in ("mean", "max", "min", "median")} == {
        "mean": 0.5, "max": 1.0, "min": 0.0, "median": 0.5,
    }  # fmt: skip
    assert metrics["std/reward"] == pytest.approx(0.7071, abs=1e-4)
    assert metrics["mean/num_steps"] == 4.0
    assert metrics["num_repeats"] == 1
    assert not any("mask_sample" in name or "_ng" in name or "coverage" in name for name in metrics)


def test_masked_rollouts_are_counted_and_not_averaged() -> None:
    found = aggregated(*(rollout(task, 0, 1.0) for task in range(3)), rollout(3, 0, 0.0, mask_sample=True))
    assert found["agent_metrics"]["mean/reward"] == 1.0
    assert found["key_metrics"] == {
        "mean/reward": 1.0, "coverage/measured_rollouts": 3, "coverage/masked_rollouts": 1,
        "coverage/measured_tasks": 3, "coverage/fully_masked_tasks": 1,
    }  # fmt: skip


def test_all_masked_has_no_mean() -> None:
    found = aggregated(rollout(0, 0, 0.0, mask_sample=True))
    assert "mean/reward" not in found["agent_metrics"]
    assert found["group_level_metrics"] == []


def test_by_task_and_by_repeat() -> None:
    found = aggregated(*(rollout(task, repeat, float(task == repeat)) for task in range(2) for repeat in range(2)))
    by_task = found["group_level_metrics"]
    assert [each["_ng_task_index"] for each in by_task] == [0, 1]
    assert [(each["num_rollouts"], each["mean/reward"]) for each in by_task] == [(2, 0.5)] * 2
    assert [each["_ng_rollout_index"] for each in found["repeat_level_metrics"]] == [0, 1]


def test_usage_counts_and_performance_is_summed_up_with_masked_rollouts() -> None:
    perf = {"num_turns": 2, "completion_tokens": 10, "token_observability_coverage": 1.0, "total_latency_ms": 100.0}
    found = aggregated(
        rollout(0, 0, 1.0, response={"usage": {"output_tokens": 10}}, ng_perf=perf),
        rollout(1, 0, 0.0, mask_sample=True, ng_perf={**perf, "total_latency_ms": 300.0}),
        rollout(2, 0, 1.0),
    )
    assert found["agent_metrics"]["mean/output_tokens"] == 10.0
    summary = found["perf_summary"]
    assert summary["overall_observability_coverage"] == pytest.approx(2 / 3)
    assert (summary["total_completion_tokens"], summary["mean_tokens_per_turn"]) == (20, 5.0)
    assert summary["total_latency_p50_ms"] == 200.0
    assert "mean_prompt_tokens" not in summary


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"verify_responses": 3}'])
def test_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(BadRequest):
        aggregate(body)
