"""What k tries at a task are worth.

Two definitions stand side by side. NeMo Gym's (`pass_metrics`; keys and percent as its aggregate files have them): for
a task whose rewards are all 0 or 1 the unbiased estimator 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, "Evaluating Large
Language Models Trained on Code"), for any other the largest of its first k. And ours (`best_of_k`), the mean over every
choice of k of a task's n rewards of the largest among them: the same number for rewards of 0 and 1, and one that does
not hang on the order of the rollouts for others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rollgym.driver.evals.describe import finite_only, total

EVERY_K_UP_TO = 64
SCORE = "accuracy"
"""The name NeMo Gym gives the reward in these keys."""

Tasks = Sequence[Sequence[float]]
"""Rewards of each task, in the order of rollout indices; no task is empty."""


def is_binary(rewards: Sequence[float]) -> bool:
    return all(reward in (0.0, 1.0) for reward in rewards)


def shown_ks(most: int) -> list[int]:
    """Every k up to 64, then its doublings, and the largest: a curve of bounded length."""
    ks = list(range(1, min(most, EVERY_K_UP_TO) + 1))
    k = EVERY_K_UP_TO * 2
    while k < most:
        ks.append(k)
        k *= 2
    return ks if most <= EVERY_K_UP_TO else [*ks, most]


def pass_at_k(total: int, correct: int, k: int) -> float:
    """The unbiased estimate that at least one of k tries is right, from `correct` of `total`; k ≤ total."""
    wrong = total - correct
    return 1.0 if wrong < k else 1.0 - math.comb(wrong, k) / math.comb(total, k)


def best_of_k(rewards: Sequence[float], k: int) -> float:
    """The mean, over all choices of k of the rewards, of the largest one; k ≤ len(rewards)."""
    if is_binary(rewards):
        return pass_at_k(len(rewards), int(sum(rewards)), k)
    ordered = sorted(rewards)
    count = len(ordered)
    weight, expected = k / count, 0.0
    for rank in range(count, k - 1, -1):  # the rank-th smallest is the largest in C(rank-1, k-1) of C(count, k) choices
        expected += weight * ordered[rank - 1]
        weight *= (rank - k) / (rank - 1) if rank > 1 else 0.0
    return expected


def curve(tasks: Tasks) -> list[dict[str, Any]]:
    """`best_of_k` by k, each over the tasks that have at least k scored rollouts."""
    points = []
    for k in shown_ks(max(map(len, tasks), default=0)):
        values = [best_of_k(rewards, k) for rewards in tasks if len(rewards) >= k]
        mean = total(values) / len(values)
        if math.isfinite(mean):
            points.append({"k": k, "tasks": len(values), "value": mean})
    return points


def pass_metrics(tasks: Tasks) -> dict[str, Any]:
    """NeMo Gym's `pass@k`, `pass@1[avg-of-k]` and their spread, in percent."""
    most = max(map(len, tasks), default=0)
    if most == 0:
        return {}
    metrics: dict[str, float] = {}
    average = _Carried(most)
    spread = _Carried(most)
    for rewards in tasks:
        average.add(list(_running_means(rewards)))
        spread.add(list(_running_stds(rewards)), first_k=2)
    by_position = list(_means_by_position(tasks, most))
    ks = shown_ks(most)
    for k in ks:
        values = [_pass_value(rewards, k) for rewards in tasks if len(rewards) >= k]
        metrics[f"pass@{k}/{SCORE}"] = 100 * total(values) / len(values)
        metrics[f"pass@1[avg-of-{k}]/{SCORE}"] = 100 * average.means[k]
    stds = list(_running_stds(by_position))
    for k in ks[1:]:
        name = f"pass@1[avg-of-{k}]/{SCORE}"
        metrics[f"{name}/std_dev_across_runs"] = stds[k - 2]
        metrics[f"{name}/std_err_across_runs"] = stds[k - 2] / math.sqrt(k)
        metrics[f"{name}/avg_sample_std_dev"] = spread.means[k]
    in_json = [value if math.isfinite(value) else None for value in by_position]
    return {**finite_only(metrics), "per_sample_aggregate": {SCORE: in_json}}


def _pass_value(rewards: Sequence[float], k: int) -> float:
    return pass_at_k(len(rewards), int(sum(rewards)), k) if is_binary(rewards) else max(rewards[:k])


def _means_by_position(tasks: Tasks, most: int) -> Iterator[float]:
    """The mean over the tasks' first rollouts, their second ones, and so on, in percent."""
    sums, counts = [0.0] * most, [0] * most
    for rewards in tasks:
        for position, reward in enumerate(rewards):
            sums[position] += reward
            counts[position] += 1
    return (100 * each / count for each, count in zip(sums, counts, strict=True))


def _running_means(values: Sequence[float]) -> Iterator[float]:
    so_far = 0.0
    for count, value in enumerate(values, 1):
        so_far += value
        yield so_far / count


def _running_stds(values: Sequence[float]) -> Iterator[float]:
    """Sample standard deviations of the first two values, the first three, and so on (Welford's recurrence)."""
    mean = squares = 0.0
    for count, value in enumerate(values, 1):
        step = value - mean
        mean += step / count
        squares += step * (value - mean)
        if count > 1:
            yield math.sqrt(squares / (count - 1))


class _Carried:
    """Means over tasks of a value per k, where a task with fewer than k rollouts counts with its last value."""

    def __init__(self, most: int) -> None:
        self._sums, self._counts = [0.0] * (most + 2), [0] * (most + 2)
        self._carried, self._carriers = [0.0] * (most + 2), [0] * (most + 2)

    def add(self, values: Sequence[float], first_k: int = 1) -> None:
        if not values:
            return
        for k, value in enumerate(values, first_k):
            self._sums[k] += value
            self._counts[k] += 1
        self._carried[first_k + len(values)] += values[-1]
        self._carriers[first_k + len(values)] += 1

    @property
    def means(self) -> list[float]:
        """By k; 0 where no task has a value."""
        means, carried, carriers = [], 0.0, 0
        for k in range(len(self._sums)):
            carried += self._carried[k]
            carriers += self._carriers[k]
            count = self._counts[k] + carriers
            means.append((self._sums[k] + carried) / count if count else 0.0)
        return means
