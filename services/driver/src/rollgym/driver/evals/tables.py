"""Aggregates, profiles and comparisons as tables and lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

from rollgym.driver.evals.agent_aggregate import AgentAggregate
from rollgym.driver.evals.aggregate import RunAggregate
from rollgym.driver.evals.comparison import Comparison, PairedTask
from rollgym.driver.evals.describe import quantiles_json
from rollgym.driver.evals.pass_at_k import curve, is_binary
from rollgym.driver.evals.perf_summary import perf_summary
from rollgym.driver.evals.profile import RunProfile, TaskProfile
from rollgym.driver.progress import seconds
from rollgym.driver.text_tables import table

NONE = "–"
_MOST_KS = 8


def number(value: float | None, digits: int = 4) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f} %"


def duration(value_ms: float | None) -> str:
    return NONE if value_ms is None else seconds(value_ms / 1000)


def interval(value: tuple[float, float] | None) -> str:
    return NONE if value is None else f"{value[0]:.4f} … {value[1]:.4f}"


def coverage_table(title: str, coverage: Mapping[str, int]) -> Table:
    return table(
        title, *(name.replace("_", " ") for name in coverage), rows=[[f"{n:,}" for n in coverage.values()]], left=0
    )


def aggregate_parts(found: RunAggregate, title: str) -> list[RenderableType]:
    """Coverage, then agent by agent: reward, what k tries are worth, repeats, tokens, times; remarks last."""
    parts: list[RenderableType] = ["", coverage_table(title, found.coverage())]
    agents = [agent for _, agent in sorted(found.agents.items())]
    parts.append(_rewards(agents))
    for agent in agents:
        parts += _tries(agent)
        parts += _lines(agent)
    if found.failed_attempts:
        parts.append("Failed attempts: " + counted(found.failed_attempts))
    parts += [f"Note: {remark}" for remark in found.remarks]
    return parts


def _rewards(agents: Sequence[AgentAggregate]) -> Table:
    columns = ("", "mean", "95% interval", "std", "rollouts", "tasks")
    rows = []
    for agent in agents:
        series = [(agent.name, agent.statistics.rewards)]
        if agent.masked:
            series.append((f"{agent.name}, masked ones included", agent.all_rewards))
        for name, mean in series:
            cells = (
                number(mean.mean),
                interval(mean.interval()),
                number(mean.std),
                f"{mean.count:,}",
                f"{mean.tasks:,}",
            )
            rows.append((name, *cells))
    zeros = " and those counted as 0" if any(agent.counted_as_zero for agent in agents) else ""
    return table(f"Reward, over scored rollouts{zeros}", *columns, rows=rows)


def _tries(agent: AgentAggregate) -> list[RenderableType]:
    tasks = agent.task_rewards()
    points = curve(tasks)
    if len(points) < 2:
        return []
    binary = all(map(is_binary, tasks))
    name = "pass@k" if binary else "best of k"
    chosen = (
        [points[at * (len(points) - 1) // (_MOST_KS - 1)] for at in range(_MOST_KS)]
        if len(points) > _MOST_KS
        else points
    )
    made = table(f"{agent.name}: {name}", "k", *(str(point["k"]) for point in chosen))
    made.add_row("value", *(percent(point["value"]) if binary else number(point["value"]) for point in chosen))
    made.add_row("tasks", *(f"{point['tasks']:,}" for point in chosen))
    return [made]


def _lines(agent: AgentAggregate) -> list[str]:
    statistics = agent.statistics
    lines = []
    if agent.counted_as_zero:
        lines.append(f"Counted as zero, though without a row: {agent.counted_as_zero}")
    if agent.failures:
        lines.append("Failed for good: " + counted(agent.failures))
    if statistics.masked_kinds:
        lines.append("Masked (not scored): " + counted(statistics.masked_kinds))
    if statistics.scored_with_failure:
        lines.append("Scored although an error stood beside the reward: " + counted(statistics.scored_with_failure))
    if statistics.truncated:
        lines.append(f"Cut short by their own turns or tokens, scored all the same: {statistics.truncated}")
    if statistics.never_ran:
        keys = ", ".join(f"{task}-{rollout}" for task, rollout in statistics.never_ran_keys)
        lines.append(f"Check these: {statistics.never_ran} row(s) whose model read no token (first: {keys})")
    lines += _costs(agent)
    return lines


def _costs(agent: AgentAggregate) -> list[str]:
    statistics = agent.statistics
    known = [
        f"{kind} {each.total:,} (over {each.rollouts:,} of {statistics.rows:,})"
        for kind, each in statistics.tokens.items()
        if each.rollouts
    ]
    lines = ["Tokens, from the final responses: " + (", ".join(known) if known else "none reported")]
    if agent.failed_tokens.kinds:
        spent = {kind: each.total for kind, each in agent.failed_tokens.kinds.items()}
        lines.append(f"Tokens of failed attempts, apart: {counted(spent)}")
    perf = perf_summary(agent.perf, statistics.rows_with_perf, statistics.rows)
    if perf is not None:
        covered = f"{percent(perf['overall_observability_coverage'])} of the rollouts were observed"
        lines.append(f"{covered}, {percent(perf['token_observability_coverage'])} with model calls")
    times = {name: quantiles_json(values) for name, values in agent.timings.columns().items()}
    for name, title in (("active_ms", "Active time"), ("session_wait_ms", "Session wait")):
        if name in times:
            shown = ", ".join(f"{q} {duration(times[name][q])}" for q in ("p50", "p90", "p99", "max"))
            lines.append(f"{title}: {shown}")
    return lines


def counted(counts: Mapping[str, int]) -> str:
    """``env_busy 3, model_error 1``, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered)


def profile_parts(found: RunProfile, most: int) -> list[RenderableType]:
    """Coverage, then the hardest, flakiest and slowest tasks, and those that never scored."""
    scored = sum(task.scored for task in found.tasks)
    passed = sum(task.passed for task in found.tasks)
    parts: list[RenderableType] = ["", coverage_table("Rollouts", found.aggregate.coverage())]
    parts.append(
        f"{len(found.tasks):,} task(s); {passed:,} of {scored:,} scored rollouts passed "
        f"({percent(passed / scored if scored else None)}), a pass being a reward of at least {found.pass_at:g}\n"
    )
    rankings = (
        ("Hardest: lowest mean reward", found.hardest(most)),
        (
            "Flakiest: rewards of one task differ most (none where every task always scores the same)",
            found.flakiest(most),
        ),
        ("Slowest: highest median latency", found.slowest(most)),
    )
    parts += [_tasks(title, tasks) for title, tasks in rankings if tasks]
    never = found.never_scored()
    if never:
        named = ", ".join(str(task.task) for task in never[:most]) + (" …" if len(never) > most else "")
        parts.append(f"Never scored: {len(never)} task(s): {named}")
    parts += [f"Note: {remark}" for remark in found.aggregate.remarks]
    return parts


def _tasks(title: str, tasks: Sequence[TaskProfile]) -> Table:
    columns = ("task", "what", "mean", "std", "passed", "scored", "masked", "unfinished", "median")
    rows = [
        (
            str(task.task),
            task.label,
            number(task.mean),
            number(task.std),
            percent(task.pass_rate),
            str(task.scored),
            str(task.masked),
            str(task.unfinished),
            duration(task.latency_ms),
        )
        for task in tasks
    ]
    return table(title, *columns, rows=rows, left=2)


def comparison_parts(found: Comparison, most: int) -> list[RenderableType]:
    """The verdict first, then what it is over, both sides, and the tasks that moved most."""
    parts: list[RenderableType] = ["", verdict(found), "", _sides(found)]
    moved = [pair for pair in found.pairs if pair.difference]
    moved = sorted(moved, key=lambda pair: (-abs(pair.difference), pair.task_a))[:most]
    if moved:
        parts.append(_pairs(f"Tasks that differ most, of {len(found.pairs):,} paired", moved))
    parts += [f"Note: {remark}" for remark in found.remarks]
    return parts


def verdict(found: Comparison) -> str:
    """One sentence that claims no more than the interval does."""
    difference, bounds = found.difference, found.interval
    if difference is None:
        return f"Nothing to compare: no task has a {found.metric} in both runs."
    over = f"over {len(found.pairs):,} task(s) paired by {'content' if found.by_content else 'task index'}"
    if bounds is None:
        return f"B - A: {difference:+.4f} {found.metric} {over}: too few for an interval."
    said = f"B - A: {difference:+.4f} {found.metric}, 95% interval {bounds[0]:+.4f} … {bounds[1]:+.4f}, {over}."
    if bounds[0] > 0 or bounds[1] < 0:
        return f"{said} B is {'higher' if difference > 0 else 'lower'}."
    if bounds == (0.0, 0.0):
        return f"{said} They are the same."
    return f"{said} It cannot be told from no difference."


def _sides(found: Comparison) -> Table:
    columns = ("", "results", f"{found.metric}, pairs", "all rollouts", "expected", "scored", "masked", "failed")
    rows = []
    results_a, results_b = told_apart(found.a.run.results, found.b.run.results)
    for name, side, results, means in (
        ("A", found.a, results_a, [pair.a.mean for pair in found.pairs]),
        ("B", found.b, results_b, [pair.b.mean for pair in found.pairs]),
    ):
        overall, coverage = side.overall(), side.aggregate.coverage()
        rows.append(
            (
                name,
                results,
                number(sum(means) / len(means) if means else None),
                number(overall.mean if overall else None),
                *(f"{coverage[state]:,}" for state in ("expected", "scored", "masked", "failed")),
            )
        )
    signs = found.signs()
    title = f"B is higher in {signs['higher']}, lower in {signs['lower']}, the same in {signs['same']} task(s)"
    return table(title, *columns, rows=rows, left=2)


def told_apart(a: Path, b: Path) -> tuple[str, str]:
    """Both files' names, with as much of their paths as tells them apart; the names alone where nothing does."""
    for length in range(1, max(len(a.parts), len(b.parts)) + 1):
        ends = Path(*a.parts[-length:]), Path(*b.parts[-length:])
        if ends[0] != ends[1]:
            return str(ends[0]), str(ends[1])
    return a.name, b.name


def _pairs(title: str, pairs: Sequence[PairedTask]) -> Table:
    columns = ("task", "what", "A", "n", "B", "n", "B - A", "95% interval")
    rows = [
        (
            str(pair.task_a) if pair.task_a == pair.task_b else f"{pair.task_a}, {pair.task_b}",
            pair.label,
            number(pair.a.mean),
            str(pair.a.count),
            number(pair.b.mean),
            str(pair.b.count),
            f"{pair.difference:+.4f}",
            interval(pair.interval),
        )
        for pair in pairs
    ]
    return table(title, *columns, rows=rows, left=2)
