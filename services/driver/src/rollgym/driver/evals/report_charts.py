"""Which plots a report has: chosen and fed here, drawn by `charts.py`. A plot without data is a sentence instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from rollgym.driver.evals.charts import Chart, bars, lines, percent, plain
from rollgym.driver.evals.pass_at_k import curve, is_binary
from rollgym.driver.evals.profile import RunProfile
from rollgym.driver.evals.timeline import Timeline
from rollgym.driver.progress import seconds

_BARS = 24
_DISTINCT = 12
_CLASSES = 7
_SLOWEST = 15
_LABELLED = 8


def report_charts(found: RunProfile, timeline: Timeline) -> tuple[list[Chart], list[str]]:
    """The plots that have data, and a sentence for each of the others."""
    charts: list[Chart] = []
    absent: list[str] = []
    for made in chain(_scores(found), _over_time(timeline), _costs(found)):
        if isinstance(made, Chart):
            charts.append(made)
        else:
            absent.append(made)
    return charts, absent


def _scores(found: RunProfile) -> Iterator[Chart | str]:
    tasks = [rewards for agent in found.aggregate.agents.values() for rewards in agent.task_rewards()]
    rewards = [reward for task in tasks for reward in task]
    if not rewards:
        yield "Reward distribution and pass@k: no rollout was scored."
        return
    labels, counts = histogram(rewards)
    over = (
        f"{len(rewards):,} scored rollouts of {len(tasks):,} tasks; masked, failed and missing ones are not among them."
    )
    yield bars("rewards", "Reward distribution", over, labels, [("rollouts", counts)], y_title="rollouts")
    points = curve(tasks)
    if len(points) < 2:
        yield "pass@k: no task has a second scored rollout."
        return
    binary = all(map(is_binary, tasks))
    average = points[0]["value"]
    fewest = min(point["tasks"] for point in points)
    yield lines(
        "pass-at-k",
        "pass@k" if binary else "Best of k",
        f"Mean over the tasks with at least k scored rollouts ({points[0]['tasks']:,} at k = 1, {fewest:,} at the "
        "fewest), over every choice of k of them; the flat line is what one rollout gives.",
        [
            ("pass@k" if binary else "best of k", [(point["k"], point["value"]) for point in points]),
            ("one rollout", [(point["k"], average) for point in points]),
        ],
        y_title="share of tasks" if binary else "reward",
        formatted=percent if binary else plain,
        x_title="k",
        x_formatted=plain,
        x_labels=[points[at * (len(points) - 1) // _LABELLED]["k"] for at in range(_LABELLED + 1)]
        if len(points) > _LABELLED
        else [point["k"] for point in points],
    )


def histogram(values: Sequence[float]) -> tuple[list[str], list[int]]:
    """Labels and counts: one bar per value where there are few, else bars of equal width."""
    distinct = sorted(set(values))
    if len(distinct) <= _DISTINCT:
        return [f"{value:g}" for value in distinct], [values.count(value) for value in distinct]
    least, width = distinct[0], distinct[-1] / _BARS - distinct[0] / _BARS
    counts = [0] * _BARS
    for value in values:
        position = (value - least) / width if math.isfinite(value - least) else 0.0
        counts[min(int(position), _BARS - 1)] += 1
    digits = max(0, 1 - math.floor(math.log10(width)))
    return [f"{least + at * width:.{digits}f}" for at in range(_BARS)], counts


def _over_time(timeline: Timeline) -> Iterator[Chart | str]:
    if not timeline.ended:
        yield "Latency, rollouts per hour and rollouts in flight over time: the journal shows no rollout that ended."
    else:
        yield from _pace(timeline)
    yield _failures(timeline)
    samples = [step for step in timeline.steps if step.lag_max_ms is not None]
    if len(samples) < 2:
        yield "Garbage collection and event loop lag: the run kept no samples (<stem>_samples.jsonl)."
        return
    yield lines(
        "health",
        "The driver's own stalls",
        "The longest pause for garbage collection and the largest event loop lag of each step, while a stall of the "
        "driver holds up every rollout at once.",
        [
            ("GC pause", [(step.middle_s, step.gc_pause_max_ms) for step in samples]),
            ("event loop lag", [(step.middle_s, step.lag_max_ms) for step in samples]),
        ],
        y_title="ms",
        x_range=(0.0, timeline.length_s),
    )


def _pace(timeline: Timeline) -> Iterator[Chart]:
    steps, whole = timeline.steps, (0.0, timeline.length_s)
    width = seconds(steps[0].width_s)
    yield lines(
        "latency",
        "Latency over time",
        f"Dispatch to end of the {timeline.ended:,} attempts that gave a row, by when they ended, in steps of {width}. "
        "Where this rises while rollouts per hour do, more is in flight than the servers can carry.",
        [
            (name, [(step.middle_s, step.latency_s(q)) for step in steps])
            for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        ],
        y_title="latency",
        formatted=lambda value: seconds(max(0.0, value)),
        x_range=whole,
    )
    yield lines(
        "rate",
        "Rollouts per hour",
        f"Rows per hour in steps of {width}.",
        [("rollouts/h", [(step.middle_s, step.rollouts_per_hour) for step in steps])],
        y_title="rollouts/h",
        x_range=whole,
    )
    yield lines(
        "in-flight",
        "Rollouts in flight",
        f"Mean over steps of {width}, from the journal's dispatches and ends.",
        [("in flight", [(step.middle_s, step.in_flight) for step in steps])],
        y_title="rollouts",
        x_range=whole,
    )


def _failures(timeline: Timeline) -> Chart | str:
    classes = timeline.failure_classes()
    if not classes:
        return "Failures over time: no attempt failed."
    shown, rest = classes[:_CLASSES], classes[_CLASSES:]
    series = [(name, [step.failures[name] for step in timeline.steps]) for name in shown]
    if rest:
        series.append(("other", [sum(step.failures[name] for name in rest) for step in timeline.steps]))
    total = sum(step.failures.total() for step in timeline.steps)
    return bars(
        "failures",
        "Failed attempts over time",
        f"{total:,} failed attempts by class; an attempt that was tried again with success is among them.",
        [seconds(step.begin_s) for step in timeline.steps],
        series,
        y_title="attempts",
        stacked=True,
    )


def _costs(found: RunProfile) -> Iterator[Chart | str]:
    totals: dict[str, list[int]] = {}
    rows = 0
    for agent in found.aggregate.agents.values():
        rows += agent.statistics.rows
        for kind, each in agent.statistics.tokens.items():
            if each.rollouts:
                total = totals.setdefault(kind, [0, 0])
                total[0] += each.total
                total[1] += each.rollouts
    if totals:
        yield bars(
            "tokens",
            "Tokens",
            "From the rollouts' final responses; cached tokens are part of the input, reasoning tokens of the output. "
            "A sum is over the rollouts that reported it, named beside its bar.",
            [f"{kind} ({reported:,} of {rows:,} rollouts)" for kind, (_, reported) in reversed(totals.items())],
            [("tokens", [total for total, _ in reversed(totals.values())])],
            y_title="",
            sideways=True,
        )
    else:
        yield "Tokens: no rollout reported any."
    slowest = found.slowest(_SLOWEST)
    if not slowest:
        yield "Slowest tasks: no rollout has a latency."
        return
    slowest.reverse()  # drawn from the bottom up
    yield bars(
        "slowest",
        "Slowest tasks",
        f"Median latency of the {len(slowest)} slowest of {len(found.tasks):,} tasks.",
        [f"{task.task} {task.label}".strip() for task in slowest],
        [("median latency", [(task.latency_ms or 0.0) / 1000 for task in slowest])],
        y_title="",
        formatted=lambda value: seconds(max(0.0, value)),
        sideways=True,
    )
