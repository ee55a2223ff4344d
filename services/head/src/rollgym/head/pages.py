"""The pages as text: templates, what they are given, and the one content policy. Knows no request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rollgym.common.failures import FailureClass
from rollgym.head import formatting
from rollgym.head.run_records import LatencySeconds, RunRecord, RunState, failure_counts

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}

_STATE_WORDS = {
    "up": ("good", "●", "up"),
    "not_responding": ("warn", "◐", "not responding"),
    "gone": ("off", "○", "gone"),
    RunState.RUNNING: ("live", "▶", "running"),
    RunState.FINISHED: ("good", "✓", "finished"),
    RunState.INCOMPLETE: ("warn", "◐", "incomplete"),
    RunState.FAILED: ("bad", "✗", "failed"),
    RunState.INTERRUPTED: ("warn", "■", "interrupted"),
    RunState.LOST: ("bad", "?", "lost"),
}
_SERVER_KINDS = {
    "head": "head",
    "resources_servers": "resources server",
    "responses_api_agents": "agent",
    "responses_api_models": "model",
    "environment_servers": "environment server",
    "env_bundle": "environments",
    "driver": "driver",
}


@dataclass(frozen=True)
class Segment:
    """One state's part of a run's bar: x and width in percent of what is owed."""

    state: str
    label: str
    count: int
    x: float
    width: float


@dataclass(frozen=True)
class FailureRow:
    kind: str
    count: int
    retry_helps: bool | None


@dataclass(frozen=True)
class RunView:
    """A run as the page shows it: its wire form, and what is worked out from it."""

    run: Mapping[str, Any]
    latency: LatencySeconds
    segments: Sequence[Segment]
    done: int | None  # succeeded, masked and failed: what was drained or cancelled is still owed
    unfinished: bool
    elapsed_s: float
    failures: Sequence[FailureRow]
    warnings: Sequence[str]
    facts: Sequence[tuple[str, str]]


def run_view(record: RunRecord, now: float) -> RunView:
    """Work out what the page says of a run."""
    report, state = record.report, record.state(now)
    last_known = now if state is RunState.RUNNING else record.updated_at
    until = last_known if report.ended_at is None else report.ended_at
    counts = report.counts
    known = [count for count in (counts.succeeded, counts.masked, counts.failed) if count is not None]
    return RunView(
        run=record.to_wire(now),
        latency=report.latency_s or LatencySeconds(),
        segments=_segments(record),
        done=sum(known) if known else None,
        unfinished=not state.ended,
        elapsed_s=max(0.0, until - report.started_at),
        failures=[FailureRow(kind, count, _retry_helps(kind)) for kind, count in failure_counts(report.failures)],
        warnings=_warnings(report.summary),
        facts=_facts(report.summary),
    )


def _segments(record: RunRecord) -> list[Segment]:
    counts = record.report.counts
    parts = [
        ("scored", "succeeded and scored", counts.succeeded or 0),
        ("masked", "masked", counts.masked or 0),
        ("failed", "failed", counts.failed or 0),
        ("drained", "drained", counts.drained or 0),
        ("cancelled", "cancelled", counts.cancelled or 0),
        ("in-flight", "in flight", counts.in_flight or 0),
    ]
    whole = max(record.report.owed or 0, sum(count for _, _, count in parts))
    segments, x = [], 0.0
    for state, label, count in parts:
        if count:
            width = 100 * count / whole
            segments.append(Segment(state, label, count, round(x, 3), round(width, 3)))
            x += width
    return segments


def _retry_helps(kind: str) -> bool | None:
    try:
        return FailureClass(kind).retryable
    except ValueError:
        return None


def _warnings(summary: Mapping[str, Any] | None) -> list[str]:
    given = (summary or {}).get("warnings")
    return [str(item)[:500] for item in given[:20]] if isinstance(given, list) else []


def _facts(summary: Mapping[str, Any] | None, prefix: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """The summary's plain values, two levels deep, as (name, text)."""
    facts: list[tuple[str, str]] = []
    for key, value in (summary or {}).items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping) and depth < 2:
            facts += _facts(value, f"{name} · ", depth + 1)
        elif key != "warnings" or depth:
            facts.append((name, _fact(value)))
    return facts[:60]


def _fact(value: Any) -> str:
    if value is None:
        return formatting.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return formatting.decimal(value).rstrip("0").rstrip(".") if value else "0"
    if isinstance(value, int):
        return formatting.count(value)
    if isinstance(value, list):
        return ", ".join(_fact(item) for item in value[:20]) or formatting.ABSENT
    return str(value)[:500]


def server_load(server: Mapping[str, Any]) -> tuple[int | None, int | None, str, int | None]:
    """What a server has in use: (used, of how many, of what, how many wait); absent stays None."""
    metadata = server["metadata"]
    if "sessions_open" in metadata or "max_sessions" in metadata:
        used, most, what = metadata.get("sessions_open"), metadata.get("max_sessions"), "sessions open"
    elif "slots_in_use" in metadata or "slots" in metadata:
        used, most, what = metadata.get("slots_in_use"), metadata.get("slots"), "slots in use"
    else:
        used, most, what = metadata.get("rollouts_in_flight"), None, "rollouts in flight"
    return _whole(used), _whole(most), what, _whole(metadata.get("sessions_waiting"))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def server_envs(server: Mapping[str, Any]) -> list[str]:
    """The environments that a server says it has."""
    envs = server["metadata"].get("envs")
    return [str(env)[:100] for env in envs[:50]] if isinstance(envs, list) else []


def render(template: str, **context: Any) -> str:
    """One page as HTML; every value in it is escaped."""
    return _environment().get_template(template).render(**context)


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """The pages' few files: name -> (content, media type)."""
    folder = resources.files("rollgym.head") / "static"
    return {name: ((folder / name).read_bytes(), media_type) for name, media_type in MEDIA_TYPES.items()}


@cache
def _version() -> str:
    """Changes when a static file changes, so that browsers may keep them for ever."""
    return hashlib.sha256(b"".join(content for content, _ in static_files().values())).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("rollgym.head"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=formatting.count,
        decimal=formatting.decimal,
        duration=formatting.duration,
        ago=formatting.ago,
        instant=formatting.instant,
        minute=formatting.minute,
        iso=formatting.iso,
    )
    environment.globals.update(
        share=formatting.share,
        absent=formatting.ABSENT,
        state_words=lambda state: _STATE_WORDS.get(state, ("off", "○", str(state))),
        kind_words=lambda kind: _SERVER_KINDS.get(kind, str(kind).replace("_", " ")),
        server_load=server_load,
        server_envs=server_envs,
        static=lambda root, name: f"{root}/ui/static/{name}?v={_version()}",
    )
    return environment
