"""The end of a run, for a person and for a program: the same figures, each with what it is over."""

from __future__ import annotations

import io
from typing import Any

from rich import box
from rich.console import Console as RichConsole
from rich.table import Table

from rollgym.common.failures import FailureClass
from rollgym.driver.durations import Durations
from rollgym.driver.intervals import ClusteredMean
from rollgym.driver.progress import seconds
from rollgym.driver.run_report import RunReport
from rollgym.driver.statistics import RunStatistics, TokenSum

WIDTH = 100
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
_SHOWN_MESSAGES = 8


def summary_json(report: RunReport) -> dict[str, Any]:
    """Every figure of the summary as data. What was not observed is absent; times are in the unit of their name."""
    statistics, health = report.statistics, report.health
    summary: dict[str, Any] = {
        "run_id": report.run_id,
        "state": report.state,
        "coverage": coverage(report),
        "reward": _mean_json(statistics.rewards),
        "reward_by_tag": [
            {"tag": name, "value": value, **_mean_json(mean)} for name, value, mean in statistics.tag_rows()
        ],
        "reward_by_agent": {name: _mean_json(mean) for name, mean in sorted(statistics.by_agent.items())},
        "failures": report.failures,
        "failed_attempts": dict(statistics.failed_attempts),
        "masked_by_kind": dict(statistics.masked_kinds),
        "scored_with_failure_kind": dict(statistics.scored_with_failure),
        "truncated": statistics.truncated,
        "never_ran": {"count": statistics.never_ran, "first_keys": statistics.never_ran_keys},
        "this_start": {
            "elapsed_s": round(report.elapsed_s, 3),
            "done": report.done_now,
            "rollouts_per_hour": rollouts_per_hour(report),
            "latency_s": _durations_json(statistics.latency.durations),
            "admission_wait_s": _durations_json(statistics.admission),
            "session_wait_s": _durations_json(statistics.session_wait),
        },
        "tokens": _tokens_json(statistics.tokens, statistics.rows),
        "tokens_of_failed_attempts": _tokens_json(statistics.failed_tokens, statistics.failed_attempts.total()),
        "driver": {
            "gc_thresholds": list(health.gc_state.gc_thresholds),
            "gc_frozen_objects": health.gc_state.gc_frozen_objects,
            "gc_kind": health.gc_state.gc_kind,
            "gc_generations": [
                {
                    "collections": total.collections,
                    "pause_sum_ms": round(total.pause_sum_s * 1000, 2),
                    "pause_max_ms": round(total.pause_max_s * 1000, 2),
                    "reclaimed": total.reclaimed,
                }
                for total in health.gc.totals
            ],
            "event_loop_lag_s": _durations_json(health.lag),
        },
        "artifacts": {
            path.stem.removeprefix(report.paths.results.stem).strip("_") or "results": str(path)
            for path in report.paths.all_files()
            if path.exists()
        },
    }
    if health.longest_stall_phase:
        stall = {"phase": health.longest_stall_phase, "ms": round(health.longest_stall_s * 1000, 1)}
        summary["driver"]["longest_section"] = stall
    if warnings := _warnings(statistics):
        summary["warnings"] = warnings
    if report.remarks:
        summary["remarks"] = report.remarks
    if report.note:
        summary["note"] = report.note
    return summary


def coverage(report: RunReport) -> dict[str, int]:
    """How many rollouts were expected, and where each of them stands."""
    counts = report.counts
    return {
        "expected": counts.owed,
        "scored": counts.succeeded,
        "masked": counts.masked,
        "failed": counts.failed,
        "drained": counts.drained,
        "cancelled": counts.cancelled,
        "missing": counts.missing,
    }


def rollouts_per_hour(report: RunReport) -> float | None:
    """Rollouts that ended in this start of the run, over its time."""
    return round(report.done_now / report.elapsed_s * 3600, 1) if report.done_now and report.elapsed_s > 0 else None


def summary_text(report: RunReport) -> str:
    """The summary as text of at most 100 columns."""
    shown = RichConsole(file=io.StringIO(), width=WIDTH, color_system=None, highlight=False, emoji=False, markup=False)
    shown.print()
    shown.print(_headline(report))
    shown.print(_rewards(report))
    shown.print(_latency(report))
    for line in _lines(report):
        shown.print(line, soft_wrap=True)
    assert isinstance(shown.file, io.StringIO)
    return "\n".join(line.rstrip() for line in shown.file.getvalue().splitlines())


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def _headline(report: RunReport) -> Table:
    table = _table(f"Run {report.run_id}: {report.state}", *coverage(report))
    for column in table.columns:
        column.justify = "right"
    table.add_row(*(f"{count:,}" for count in coverage(report).values()))
    return table


def _rewards(report: RunReport) -> Table:
    table = _table("Reward, over scored rollouts", "", "mean", "95% interval", "std", "rollouts", "tasks")
    table.add_row("all", *_mean_cells(report.statistics.rewards))
    for name, value, mean in report.statistics.tag_rows():
        table.add_row(f"{name} = {value}", *_mean_cells(mean))
    return table


def _mean_cells(mean: ClusteredMean) -> tuple[str, ...]:
    interval = mean.interval()
    return (
        "–" if mean.mean is None else f"{mean.mean:.4f}",
        "–" if interval is None else f"{interval[0]:.4f} … {interval[1]:.4f}",
        "–" if mean.std is None else f"{mean.std:.4f}",
        f"{mean.count:,}",
        f"{mean.tasks:,}",
    )


def _latency(report: RunReport) -> Table:
    statistics = report.statistics
    rate = rollouts_per_hour(report)
    title = f"Time, over the {report.done_now:,} rollout(s) that ended in this start ({seconds(report.elapsed_s)}"
    title += f", {rate:,.0f} rollouts/h)" if rate is not None else ")"
    table = _table(title, "", "p50", "p90", "p99", "max", "measured")
    for name, durations in (
        ("rollout, dispatch to end", statistics.latency.durations),
        ("wait for a slot", statistics.admission),
        ("wait for a session", statistics.session_wait),
    ):
        table.add_row(name, *_duration_cells(durations))
    table.add_row("event loop lag of the driver", *_duration_cells(report.health.lag))
    return table


def _duration_cells(durations: Durations) -> tuple[str, ...]:
    values = [durations.quantile(q) for _, q in _QUANTILES]
    return (*("–" if value is None else seconds(value) for value in values), f"{durations.count:,}")


def _lines(report: RunReport) -> list[str]:
    statistics, health = report.statistics, report.health
    lines = []
    if report.failures:
        lines.append("Failed for good: " + _counted(report.failures))
    if statistics.failed_attempts:
        lines.append("Failed attempts: " + _counted(statistics.failed_attempts))
        for message, count in statistics.failure_messages.most_common(_SHOWN_MESSAGES):
            lines.append(f"  {count} × {message}")
    if statistics.masked_kinds:
        lines.append("Masked (not scored): " + _counted(statistics.masked_kinds))
    if statistics.scored_with_failure:
        lines.append("Scored although an error stood beside the reward: " + _counted(statistics.scored_with_failure))
    if statistics.truncated:
        lines.append(f"Cut short by their own turns or tokens, scored all the same: {statistics.truncated}")
    lines += [f"Check these: {warning}" for warning in _warnings(statistics)]
    lines.append(_tokens_line(statistics.tokens, statistics.rows))
    gc = health.gc
    lines.append(
        f"Garbage collection of the driver: {gc.collections} collection(s), {gc.pause_sum_s * 1000:.1f} ms in all, "
        f"longest {gc.pause_max_s * 1000:.1f} ms, thresholds {tuple(health.gc_state.gc_thresholds)}, "
        f"{health.gc_state.gc_frozen_objects:,} objects frozen"
    )
    if health.longest_stall_phase:
        lines.append(
            f"Longest section of the driver: {health.longest_stall_s * 1000:.1f} ms: {health.longest_stall_phase}"
        )
    lines.append("Artifacts:")
    lines += [f"  {path}" for path in report.paths.all_files() if path.exists()]
    lines += [f"Note: {remark}" for remark in report.remarks]
    if report.note:
        lines.append(f"Ended early: {report.note}")
    if not report.complete:
        lines.append(_how_to_go_on(report))
    return lines


def _how_to_go_on(report: RunReport) -> str:
    counts = report.counts
    owed = counts.drained + counts.cancelled + counts.missing
    parts = [f"Incomplete: {counts.failed} failed for good, {owed} still owed."]
    if owed:
        parts.append("The same command with --resume runs what is owed.")
    refused = report.failures.get(FailureClass.ENV_REFUSED, 0)
    if refused:
        parts.append(f"--resume tries the {refused} again that no server was there for.")
    if counts.failed > refused:
        parts.append("--resume with ++retry_failed=true also tries the failed ones again.")
    return " ".join(parts)


def _warnings(statistics: RunStatistics) -> list[str]:
    """What a person should look at before trusting the figures; the head's page shows it too."""
    if not statistics.never_ran:
        return []
    keys = ", ".join(f"{task}-{rollout}" for task, rollout in statistics.never_ran_keys)
    return [f"{statistics.never_ran} row(s) whose model read no token (first: {keys})"]


def _counted(counts: Any) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in ordered)


def _tokens_line(tokens: dict[str, TokenSum], rows: int) -> str:
    known = [
        f"{kind} {each.total:,} (over {each.rollouts:,} of {rows:,})" for kind, each in tokens.items() if each.rollouts
    ]
    return "Tokens, from the final responses: " + (", ".join(known) if known else "none reported")


def _mean_json(mean: ClusteredMean) -> dict[str, Any]:
    interval = mean.interval()
    values: dict[str, Any] = {"rollouts": mean.count, "tasks": mean.tasks, "mean": mean.mean}
    if mean.std is not None:
        values["std"] = mean.std
    if interval is not None:
        values["interval_95"] = list(interval)
    if mean.count:
        values |= {"min": mean.least, "max": mean.most}
    return values


def _durations_json(durations: Durations) -> dict[str, Any]:
    values: dict[str, Any] = {"count": durations.count}
    for name, q in _QUANTILES:
        value = durations.quantile(q)
        if value is not None:
            values[name] = round(value, 6)
    return values


def _tokens_json(tokens: dict[str, TokenSum], over: int) -> dict[str, Any]:
    return {
        kind: {"total": each.total, "reported_by": each.rollouts, "of": over}
        for kind, each in tokens.items()
        if each.rollouts
    }
