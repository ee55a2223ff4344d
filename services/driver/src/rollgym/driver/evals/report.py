"""`gym eval report`: one HTML file about a run, that needs nothing but a browser."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rollgym.common import jsonx
from rollgym.common.errors import ArtifactError
from rollgym.common.redaction import redact
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.perf_summary import perf_summary
from rollgym.driver.evals.profile import RunProfile, profile
from rollgym.driver.evals.report_charts import report_charts
from rollgym.driver.evals.tables import counted, duration, interval, number, percent
from rollgym.driver.evals.timeline import Timeline, read_timeline
from rollgym.driver.progress import seconds

SHOWN_TASKS = 15


def write_report(run: ArtifactPaths, output: Path) -> dict[str, Any]:
    """Write the report; returns what was written: path, size, plots. Blocks.

    Raises ConfigurationError for artifacts that cannot be read, ArtifactError where the file cannot be written.
    """
    page, charts = render_report(run)
    content = page.encode()
    scratch = output.with_name(output.name + ".writing")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(content)
        os.replace(scratch, output)
    except OSError as error:
        raise ArtifactError(f"cannot write {output}: {error.strerror}", path=str(output)) from error
    return {"report": str(output), "bytes": len(content), "plots": charts}


def render_report(run: ArtifactPaths) -> tuple[str, list[str]]:
    """The page and the names of its plots. Blocks."""
    found, timeline = profile(run), read_timeline(run)
    charts, absent = report_charts(found, timeline)
    templates = Environment(
        loader=PackageLoader("rollgym.driver.evals", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"number": number, "percent": percent, "duration": duration, "interval": interval}
    page = templates.get_template("report.html").render(
        name=run.results.stem,
        origin=_origin(run.manifest),
        written_at=_date(time.time()),
        coverage=found.aggregate.coverage(),
        agents=[agent for _, agent in sorted(found.aggregate.agents.items())],
        charts=charts,
        absent=absent,
        hardest=found.hardest(SHOWN_TASKS),
        flakiest=found.flakiest(SHOWN_TASKS),
        slowest=found.slowest(SHOWN_TASKS),
        notes=_notes(found),
        facts=_facts(found, timeline),
    )
    return page, [chart.name for chart in charts]


@dataclass(frozen=True)
class _Origin:
    """What the page says of where the numbers come from; None where no manifest tells, as beside merged shards."""

    run_id: str | None = None
    state: str | None = None
    note: str | None = None
    input_file: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    resumed: int = 0
    settings: tuple[tuple[str, Any], ...] = ()


def _origin(path: Path) -> _Origin:
    try:
        manifest = jsonx.loads(path.read_bytes())
    except (OSError, ValueError):
        return _Origin()
    if not isinstance(manifest, dict):
        return _Origin()
    texts = {name: manifest.get(name) for name in ("run_id", "state", "note", "input_file")}
    times = {name: manifest.get(name) for name in ("started_at", "ended_at")}
    settings = redact(manifest.get("settings"))
    return _Origin(
        **{name: text for name, text in texts.items() if isinstance(text, str)},
        **{name: _date(at) for name, at in times.items() if isinstance(at, int | float)},
        resumed=len(manifest.get("resumed_at") or ()),
        settings=tuple(sorted(settings.items())) if isinstance(settings, dict) else (),
    )


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _facts(found: RunProfile, timeline: Timeline) -> list[tuple[str, str]]:
    """Lines under the headline: what ran how long, what it cost, what was observed."""
    facts = []
    if timeline.length_s and timeline.ended:
        rate = timeline.ended / timeline.length_s * 3600
        facts.append(("Collected in", f"{seconds(timeline.length_s)} of running time, {rate:,.0f} rollouts/h"))
    for _, agent in sorted(found.aggregate.agents.items()):
        statistics = agent.statistics
        tokens = [
            f"{kind} {each.total:,} (reported by {each.rollouts:,} of {statistics.rows:,} rollouts)"
            for kind, each in statistics.tokens.items()
            if each.rollouts
        ]
        facts.append((f"Tokens of {agent.name}", "; ".join(tokens) or "no rollout reported any"))
        perf = perf_summary(agent.perf, statistics.rows_with_perf, statistics.rows)
        if perf is not None:
            observed = percent(perf["overall_observability_coverage"])
            calls = percent(perf["token_observability_coverage"])
            facts.append((f"Observed of {agent.name}", f"{observed} of the rollouts, {calls} with model calls"))
    return facts


def _notes(found: RunProfile) -> list[str]:
    notes = []
    for _, agent in sorted(found.aggregate.agents.items()):
        statistics = agent.statistics
        for title, counts in (
            ("failed for good", agent.failures),
            ("masked, so not scored", statistics.masked_kinds),
            ("scored although an error stood beside the reward", statistics.scored_with_failure),
        ):
            if counts:
                notes.append(f"{agent.name}: {title}: {counted(counts)}")
        if statistics.truncated:
            notes.append(f"{agent.name}: cut short by their own turns or tokens, scored: {statistics.truncated}")
        if statistics.never_ran:
            keys = ", ".join(f"{task}-{rollout}" for task, rollout in statistics.never_ran_keys)
            notes.append(f"{agent.name}: check {statistics.never_ran} row(s) that read no token, first: {keys}")
    if found.aggregate.failed_attempts:
        notes.append("failed attempts: " + counted(found.aggregate.failed_attempts))
    if never := found.never_scored():
        named = ", ".join(str(task.task) for task in never[:SHOWN_TASKS])
        notes.append(f"never scored: {len(never)} task(s): {named}{' …' if len(never) > SHOWN_TASKS else ''}")
    return notes + found.aggregate.remarks
