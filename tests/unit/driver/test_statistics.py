"""The figures of a run: over what was scored, bounded in memory, unharmed by odd rows."""

from typing import Any

import pytest

from rollgym.driver.outcomes import Failed, Timings
from rollgym.driver.rollout_facts import RolloutFacts, Tokens
from rollgym.driver.statistics import MOST_TAG_VALUES, RunStatistics


def facts(reward: float | None = 1.0, **fields: Any) -> RolloutFacts:
    given: dict[str, Any] = {
        "masked": False, "failure_kind": None, "truncated": False, "tokens": Tokens(), "perf": None, "agent": "a",
        "tags": {}, "never_ran": False,
    }  # fmt: skip
    return RolloutFacts(reward=reward, **(given | fields))


def test_masked_rows_leave_the_mean_and_stay_in_the_cost() -> None:
    found = RunStatistics()
    for task in range(3):
        found.add_row((task, 0), facts(1.0, tokens=Tokens(input=10)))
    found.add_row((3, 0), facts(0.0, masked=True, failure_kind="env_lost", tokens=Tokens(input=5)))
    assert (found.rewards.mean, found.rewards.count, found.rows) == (1.0, 3, 4)
    assert found.masked_kinds == {"env_lost": 1}
    assert (found.tokens["input"].total, found.tokens["input"].rollouts) == (35, 4)
    assert found.tokens["output"].rollouts == 0


def test_a_real_reward_beside_an_error_is_scored_and_counted_apart() -> None:
    found = RunStatistics()
    found.add_row((0, 0), facts(1.0, failure_kind="agent_timeout"))
    assert (found.rewards.mean, found.scored_with_failure, found.masked_kinds) == (1.0, {"agent_timeout": 1}, {})


@pytest.mark.parametrize("perf", [{}, {"num_turns": 1}, {"token_observability_coverage": "high"}], ids=str)
def test_a_perf_of_another_shape_is_no_crash(perf: dict[str, Any]) -> None:
    found = RunStatistics()
    found.add_row((0, 0), facts(perf=perf))
    assert (found.rows_with_perf, found.rows_with_token_coverage) == (1, 0)


def test_tags_with_endless_values_share_one_place() -> None:
    found = RunStatistics()
    for task in range(MOST_TAG_VALUES + 50):
        found.add_row((task, 0), facts(tags={"id": str(task), "season": "winter"}))
    rows = {(name, value): mean.count for name, value, mean in found.tag_rows()}
    assert rows["id", "(other)"] == 50
    assert rows["season", "winter"] == MOST_TAG_VALUES + 50
    assert len(rows) == MOST_TAG_VALUES + 2


@pytest.mark.parametrize("message", ["", "\n", "\x85", "a\nb", "x" * 10_000], ids=repr)
def test_messages_are_counted_by_their_first_line(message: str) -> None:
    found = RunStatistics()
    failed = Failed("env_busy", message[:3000], False, Timings(0, None, 1), tokens=Tokens(input=7))
    for _ in range(3):
        found.add_failed_attempt(failed)
    ((shown, count),) = found.failure_messages.items()
    assert (count, len(shown) <= 200) == (3, True)
    assert found.failed_tokens["input"].total == 21
    assert found.tokens["input"].total == 0


def test_a_rollout_is_its_own_time_and_its_waits_stand_apart() -> None:
    found = RunStatistics()
    for waited in range(10):
        found.add_timings(Timings(admission_s=float(waited), session_s=0.5, active_s=1.0))
    assert found.latency.quantile(0.5) == pytest.approx(1.5)
    assert found.admission.quantile(1.0) == 9.0
    assert found.session_wait.quantile(0.5) == 0.5
    assert Timings(2.0, 0.5, 1.0).total_s == pytest.approx(3.5)
    assert Timings(2.0, None, 1.0).to_json() == {"admission_wait_ms": 2000.0, "active_ms": 1000.0}
