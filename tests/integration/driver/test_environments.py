"""Rollouts in real environments, through resources and env-bundle: whatever ends them, no episode stays open."""

import resource
import signal
from typing import Any

import httpx

from integration.driver.runs import RunFolder, signal_when
from integration.driver.servers import Stack
from rollgym.common.failures import FailureClass
from waiting import wait_until


def row(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "x"}, "env": "echo", "scripted": {"calls": list(calls)}, **fields}


def step(**arguments: Any) -> dict[str, Any]:
    return {"name": "step", "arguments": arguments}


def test_a_timed_out_step_gives_its_episode_back_at_once(run: RunFolder, stack: Stack) -> None:
    run.tasks([row(step(delay_s=60)), row(step(reward=1.0))])
    summary = run.summary(stack.head.url, "++rollout_timeout_s=1", "++max_rollout_attempts=2", code=3)
    assert summary["failures"] == {FailureClass.ROLLOUT_TIMEOUT: 1}
    assert [failure["data"]["phase"] for failure in run.failures] == ["tools", "tools"]
    wait_until(lambda: stack.sessions() == 0, 5)


def test_a_timed_out_reset_gives_its_episode_back_at_once(run: RunFolder, stack: Stack) -> None:
    run.tasks([row(reset={"delay_s": 60})])
    summary = run.summary(stack.head.url, "++rollout_timeout_s=1", "++max_rollout_attempts=1", code=3)
    assert summary["failures"] == {FailureClass.ROLLOUT_TIMEOUT: 1}
    assert run.failures[0]["data"]["phase"] == "seed"
    wait_until(lambda: stack.sessions() == 0, 5)


def test_an_interrupted_run_gives_every_episode_back(run: RunFolder, stack: Stack) -> None:
    run.tasks([row(step(delay_s=60))] * 6)
    with signal_when(lambda: stack.sessions() == 6, signal.SIGTERM):
        assert run.run(stack.head.url).code == 143
    assert stack.sessions() == 0


def test_session_waiting_stands_apart_from_work(run: RunFolder, stack: Stack) -> None:
    run.tasks([row(step(reward=1.0), reset={"delay_s": 0.5})])
    summary = run.summary(stack.head.url)
    timings = run.rows[0]["rollgym_timings"]
    assert timings["session_wait_ms"] >= 500
    assert timings["active_ms"] < 500
    assert summary["this_start"]["session_wait_s"]["p50"] >= 0.5


def test_the_same_seeds_give_the_same_rewards(run: RunFolder, stack: Stack) -> None:
    tasks = [{"responses_create_params": {"input": "play"}, "env": "gridsim", "seed": seed} for seed in range(6)]
    run.tasks(tasks)
    rewards = []
    for more in ((), ("--overwrite",)):
        assert run.run(stack.head.url, "--policy", "scripted", *more).code == 0
        rewards.append({row["_ng_task_index"]: row["reward"] for row in run.rows})
    assert rewards[0] == rewards[1]
    assert len(set(rewards[0].values())) > 1


def test_the_head_keeps_a_runs_last_numbers_after_the_driver_has_gone(run: RunFolder, stack: Stack) -> None:
    summary = run.tasks([row(step(reward=0.5, done=True))] * 5).summary(stack.head.url)
    with httpx.Client(base_url=stack.head.url, trust_env=False) as head:
        record = head.get(f"/v1/runs/{summary['run_id']}").json()
        metrics = head.get("/metrics").text
        servers = {server["name"] for server in head.get("/v1/servers").json()["servers"] if server["status"] == "up"}
    assert (record["state"], record["owed"], record["counts"]["succeeded"]) == ("finished", 5, 5)
    assert record["reward_mean"] == 0.5
    assert record["ended_at"] is not None
    of_run = [line for line in metrics.splitlines() if summary["run_id"] in line]
    assert any(line.startswith("rollgym_run_gc_collections_total") for line in of_run)
    assert any(line.startswith("rollgym_run_rollout_seconds_count") and line.endswith(" 5.0") for line in of_run)
    assert "driver" not in servers


def test_a_run_that_ends_on_a_full_disk_has_nothing_in_flight(run: RunFolder, stack: Stack) -> None:
    run.tasks([row(step(message="x" * 5000, reward=0.5, done=True))] * 40)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))
    try:
        ended = run.run(stack.head.url, "--concurrency", "8")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (ended.code, run.manifest["state"]) == (1, "failed"), ended
    with httpx.Client(base_url=stack.head.url, trust_env=False) as head:
        counts = head.get(f"/v1/runs/{run.manifest['run_id']}").json()["counts"]
    assert counts["in_flight"] == 0
    assert counts["succeeded"] == len(run.rows) < 40
