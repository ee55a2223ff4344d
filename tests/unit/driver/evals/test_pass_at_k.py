"""pass@k and its kin against brute force over every choice of k."""

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.driver.evals.pass_at_k import best_of_k, curve, pass_at_k, pass_metrics, shown_ks

REWARDS = st.lists(st.sampled_from([0.0, 1.0]) | st.floats(-5, 5), min_size=1, max_size=7)
TABLES = st.lists(REWARDS, min_size=1, max_size=6)


@pytest.mark.parametrize("total", range(1, 8))
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(total: int) -> None:
    for correct in range(total + 1):
        tries = [1] * correct + [0] * (total - correct)
        for k in range(1, total + 1):
            choices = list(combinations(tries, k))
            assert pass_at_k(total, correct, k) == pytest.approx(sum(map(max, choices)) / len(choices), abs=1e-12)


@settings(max_examples=50)
@given(REWARDS, st.data())
def test_best_of_k_is_the_mean_largest_over_every_choice(rewards: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    choices = list(combinations(rewards, k))
    assert best_of_k(rewards, k) == pytest.approx(math.fsum(map(max, choices)) / len(choices), abs=1e-9)
    assert best_of_k(rewards[::-1], k) == pytest.approx(best_of_k(rewards, k), abs=1e-9)


@settings(max_examples=50)
@given(TABLES)
def test_the_metrics_follow_their_definitions(tasks: list[list[float]]) -> None:
    metrics = pass_metrics(tasks)
    most = max(map(len, tasks))
    for k in range(1, most + 1):
        reached = [rewards for rewards in tasks if len(rewards) >= k]
        expected = [best_of_k(rewards, k) if set(rewards) <= {0.0, 1.0} else max(rewards[:k]) for rewards in reached]
        assert metrics[f"pass@{k}/accuracy"] == pytest.approx(100 * sum(expected) / len(expected), abs=1e-9)
        averages = [sum(rewards[:k]) / len(rewards[:k]) for rewards in tasks]
        average = metrics[f"pass@1[avg-of-{k}]/accuracy"]
        assert average == pytest.approx(100 * sum(averages) / len(averages), abs=1e-9)
    assert f"pass@{most + 1}/accuracy" not in metrics


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=9), min_size=1, max_size=5))
def test_more_tries_are_never_worth_less(tasks: list[list[float]]) -> None:
    for rewards in tasks:
        worth = [best_of_k(rewards, k) for k in range(1, len(rewards) + 1)]
        assert worth == sorted(worth)
        assert worth[0] == pytest.approx(sum(rewards) / len(rewards))
        assert worth[-1] == max(rewards)


def test_the_spread_across_repeats() -> None:
    metrics = pass_metrics([[1.0, 0.0], [1.0, 1.0]])
    # Repeat 0: 100 %, repeat 1: 50 %; within tasks: √½ and 0.
    assert metrics["per_sample_aggregate"] == {"accuracy": [100.0, 50.0]}
    name = "pass@1[avg-of-2]/accuracy"
    assert metrics[f"{name}/std_dev_across_runs"] == pytest.approx(math.sqrt(1250))
    assert metrics[f"{name}/std_err_across_runs"] == pytest.approx(25.0)
    assert metrics[f"{name}/avg_sample_std_dev"] == pytest.approx(math.sqrt(0.5) / 2)


def test_a_long_curve_has_few_points() -> None:
    assert shown_ks(5) == [1, 2, 3, 4, 5]
    assert shown_ks(64) == list(range(1, 65))
    assert shown_ks(1000)[63:] == [64, 128, 256, 512, 1000]
    points = curve([[0.0, 1.0] * 500, [1.0]])
    assert points[0] == {"k": 1, "tasks": 2, "value": 0.75}
    assert points[-1] == {"k": 1000, "tasks": 1, "value": 1.0}


@pytest.mark.parametrize("tasks", [[], [[]]], ids=["no-task", "an-empty-task"])
def test_nothing_scored_gives_no_metrics(tasks: list[list[float]]) -> None:
    assert pass_metrics(tasks) == {}
    assert curve(tasks) == []
