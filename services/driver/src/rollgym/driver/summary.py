"""The end of a run, for a person and for a program: the same figures, each with what it is over."""

from __future__ import annotations

import shlex
from typing import Any

from rich.table import Table

from rollgym.common.failures import FailureClass
from rollgym.common.gc_tuning import GcWatch
from rollgym.driver.durations import Durations
from rollgym.driver.intervals import ClusteredMean
from rollgym.driver.progress import seconds
from rollgym.driver.run_report import RunReport
from rollgym.driver.statistics import RunStatistics, TokenSum
from rollgym.driver.text_tables import as_text, table

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
            "with_row": report.rows_now,
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
                    "pause_max_ms": round(total.pause_max_s * 1000, 2) if total.collections else None,
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
    """Rollouts that got a row in this start of the run, over its time; a failure is no work done."""
    return round(report.rows_now / report.elapsed_s * 3600, 1) if report.rows_now and report.elapsed_s > 0 else None


def summary_text(report: RunReport) -> str:
    """The summary as text of at most 100 columns."""
    return as_text(["", _headline(report), _rewards(report), _latency(report), *_lines(report)])


def _headline(report: RunReport) -> Table:
    counts = coverage(report)
    return table(f"Run {report.run_id}: {report.state}", *counts, rows=[[f"{n:,}" for n in counts.values()]], left=0)


def _rewards(report: RunReport) -> Table:
    made = table("Reward, over scored rollouts", "", "mean", "95% interval", "std", "rollouts", "tasks")
    made.add_row("all", *_mean_cells(report.statistics.rewards))
    for name, value, mean in report.statistics.tag_rows():
        made.add_row(f"{name} = {value}", *_mean_cells(mean))
    return made


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
    made = table(_this_start(report), "", "p50", "p90", "p99", "max", "measured")
    for name, durations in (
        ("rollout, dispatch to end", statistics.latency.durations),
        ("wait for a slot", statistics.admission),
        ("wait for a session", statistics.session_wait),
        ("event loop lag of the driver", report.health.lag),
    ):
        made.add_row(name, *_duration_cells(durations))
    return made


def _this_start(report: RunReport) -> str:
    rate, failed = rollouts_per_hour(report), report.done_now - report.rows_now
    said = f"Time of this start: {seconds(report.elapsed_s)}, {report.rows_now:,} rollout(s) with a row"
    if rate is not None:
        said += f" ({rate:,.0f}/h)"
    return f"{said}, {failed:,} failed for good" if failed else said


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
        f"Garbage collection of the driver: {_collections(gc)}, thresholds {tuple(health.gc_state.gc_thresholds)}, "
        f"{health.gc_state.gc_frozen_objects:,} objects frozen"
    )
    if health.longest_stall_phase:
        lines.append(
            f"Longest section of the driver: {health.longest_stall_s * 1000:.1f} ms: {health.longest_stall_phase}"
        )
    lines.append("Artifacts:")
    lines += [f"  {path}" for path in report.paths.all_files() if path.exists()]
    if report.paths.logs.exists():
        lines.append(f"  {report.paths.logs}/")
    lines += [f"Note: {remark}" for remark in report.remarks]
    if report.note:
        lines.append(f"Ended early: {report.note}")
    if not report.complete:
        lines.append(_how_to_go_on(report))
    return lines


def _how_to_go_on(report: RunReport) -> str:
    counts = report.counts
    owed = counts.drained + counts.cancelled + counts.missing
    refused = report.failures.get(FailureClass.ENV_REFUSED, 0)
    does = []
    if owed:
        does.append("runs what is owed")
    if refused:
        does.append(f"tries the {refused} again that no server was there for")
    if counts.failed > refused:
        does.append("with ++retry_failed=true tries the failed ones again")
    # The output is named: make and the containers choose a new one for each run.
    again = f"The same command with --resume --output {shlex.quote(str(report.paths.results))}"
    return f"Incomplete: {counts.failed} failed for good, {owed} still owed. {again} {', '.join(does)}."


def _warnings(statistics: RunStatistics) -> list[str]:
    """What a person should look at before trusting the figures; the head's page shows it too."""
    if not statistics.never_ran:
        return []
    keys = ", ".join(f"{task}-{rollout}" for task, rollout in statistics.never_ran_keys)
    return [f"{statistics.never_ran} row(s) whose model read no token (first: {keys})"]


def _collections(gc: GcWatch) -> str:
    if not gc.collections:
        return "no collection"
    longest = f"longest {gc.pause_max_s * 1000:.1f} ms"
    return f"{gc.collections} collection(s), {gc.pause_sum_s * 1000:.1f} ms in all, {longest}"


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
