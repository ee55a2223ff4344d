"""`/metrics`: the last values of runs outlive their drivers, bounded, and the three ends are told apart."""

import re
from typing import Any

import pytest

from rollgym.head.app import HeadSettings

FINAL = """# HELP rollgym_rollouts_total Rollouts
# TYPE rollgym_rollouts_total counter
rollgym_rollouts_total{outcome="succeeded"} 200
# HELP rollgym_rollouts_in_flight In flight
# TYPE rollgym_rollouts_in_flight gauge
rollgym_rollouts_in_flight 3
# HELP rollgym_rollout_seconds Latency
# TYPE rollgym_rollout_seconds histogram
rollgym_rollout_seconds_bucket{le="1.0"} 150
rollgym_rollout_seconds_bucket{le="+Inf"} 200
rollgym_rollout_seconds_sum 170.5
rollgym_rollout_seconds_count 200
"""


async def samples(head: Any) -> dict[str, float]:
    lines = (await head.client.get("/metrics")).text.splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


async def test_final_values_are_exposed_as_they_were_handed_over(head: Any) -> None:
    await head.report("r1", state="finished", ended_at=head.clock.now, metrics_text=FINAL)
    found = await samples(head)
    assert found['rollgym_run_rollouts_total{outcome="succeeded",run_id="r1"}'] == 200
    assert found['rollgym_run_rollout_seconds_bucket{le="1.0",run_id="r1"}'] == 150
    assert found['rollgym_run_rollout_seconds_sum{run_id="r1"}'] == 170.5
    assert found['rollgym_run_ended_timestamp_seconds{run_id="r1"}'] == head.clock.now
    assert not any("rollouts_in_flight" in name for name in found)


async def test_the_exposition_is_one_that_prometheus_takes(head: Any) -> None:
    for index in range(3):
        await head.report(f"r{index}", state="finished", metrics_text=FINAL, name='quo"te\nline')
    text = (await head.client.get("/metrics")).text
    headers = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(headers) == len(set(headers))
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))


async def test_running_lost_and_ended_are_told_apart(head: Any) -> None:
    await head.report("died")
    head.clock.advance(21)
    await head.report("works")
    await head.report("ended", state="interrupted", ended_at=head.clock.now)
    found = await samples(head)
    states = {name: value for name, value in found.items() if name.startswith("rollgym_run_state{") and value}
    assert set(states) == {
        'rollgym_run_state{run_id="died",state="lost"}',
        'rollgym_run_state{run_id="works",state="running"}',
        'rollgym_run_state{run_id="ended",state="interrupted"}',
    }
    assert 'rollgym_run_rollouts_by_state{run_id="died",state="in_flight"}' not in found
    assert found['rollgym_run_rollouts_by_state{run_id="died",state="succeeded"}'] == 88


async def test_absent_numbers_have_no_series(head: Any) -> None:
    await head.report("r1", reward_mean=None, latency_s=None, owed=None, counts={})
    names = {name.partition("{")[0] for name in await samples(head)}
    assert not names & {
        "rollgym_run_reward_mean",
        "rollgym_run_latency_seconds",
        "rollgym_run_owed",
        "rollgym_run_scored",
    }


async def test_failure_classes_are_a_bounded_set(head: Any) -> None:
    await head.report("r1", failures={"env_busy": 2, "made up": 3, "also": 1})
    found = await samples(head)
    assert {name: value for name, value in found.items() if "run_failures" in name} == {
        'rollgym_run_failures{failure_class="env_busy",run_id="r1"}': 2,
        'rollgym_run_failures{failure_class="other",run_id="r1"}': 4,
    }


async def test_servers_are_counted_by_status(head: Any) -> None:
    await head.register("a-1")
    head.clock.advance(16)
    await head.register("b-1")
    found = await samples(head)
    assert (found['rollgym_head_servers{status="up"}'], found['rollgym_head_servers{status="not_responding"}']) == (
        1,
        1,
    )


class TestManyRuns:
    @pytest.fixture
    def settings(self) -> HeadSettings:
        return HeadSettings(database=":memory:", metrics_runs=3)

    async def test_only_the_most_recent_runs_have_series(self, head: Any) -> None:
        for index in range(6):
            await head.report(f"r{index}", metrics_text=FINAL)
        found = await samples(head)
        assert {re.sub(r'.*run_id="(\w+)".*', r"\1", name) for name in found if "run_id" in name} == {"r3", "r4", "r5"}
