"""`gym eval aggregate`, `profile`, `compare` and `report`: words read, artifacts read, text or JSON printed."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import RunAggregate, ZeroRules, aggregate, write_entries
from rollgym.driver.evals.comparison import compare_runs
from rollgym.driver.evals.locate import find_results, run_at
from rollgym.driver.evals.merge import merge, refuse_output
from rollgym.driver.evals.profile import profile
from rollgym.driver.evals.tables import aggregate_parts, comparison_parts, profile_parts
from rollgym.driver.text_tables import as_text

_AGGREGATE_EPILOG = """\
Masked rollouts leave the quality metrics and stay in the coverage; so do failed and missing ones, unless one of the
--count flags asks for zeros. Companions of a shard (_failures, _materialized_inputs, _journal) are read where they are
there. docs/metrics.md defines every metric.

exit codes: 0 done, 2 usage, a line that is no result, or duplicates that are refused; 1 the output cannot be written

examples:
  gym eval aggregate --input 'shards/*.jsonl' --output merged.jsonl
  gym eval aggregate --input rollouts.jsonl                     (only its rollouts_aggregate_metrics.json, anew)
  gym eval aggregate --input 'a/*.jsonl' 'b/*.jsonl' --output all.jsonl --on-duplicate last --json
"""

_COMPARE_EPILOG = """\
The difference is B - A, task by task: each task in both runs counts once, with the mean over its scored rollouts.
The interval is Student's over those differences. Tasks in one run only, or without a scored rollout in one, are left
out and counted aloud. Tasks are paired by content where both runs have their materialized inputs, else by index.

examples:
  gym eval compare results/base.jsonl results/new.jsonl
  gym eval compare results/base results/new --metric latency_ms --json
"""


def define_eval_command(name: str, parser: ArgumentParser) -> None:
    """Say of `gym eval NAME` what it takes and what it runs; NAME is aggregate, profile, compare or report."""
    _DEFINITIONS[name](parser)


def _profile_flags(parser: ArgumentParser) -> None:
    parser.description = "Show a run task by task: pass rates, and the hardest, flakiest and slowest tasks."
    parser.add_argument("path", type=Path, metavar="RUN", help="results file, or the folder of one run")
    parser.add_argument(
        "--pass-at", type=_finite, default=1.0, metavar="REWARD", help="least reward that passes (%(default)s)"
    )
    _common(parser, "tasks in each list")
    parser.set_defaults(run_command=_profile, run=_run)


def _compare_flags(parser: ArgumentParser) -> None:
    parser.description = "Compare two runs over the same tasks: the paired difference with its 95% interval."
    parser.epilog = _COMPARE_EPILOG
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.add_argument("a", type=Path, metavar="A", help="results file or folder of the run to compare with")
    parser.add_argument("b", type=Path, metavar="B", help="results file or folder of the other run")
    parser.add_argument("--metric", default="reward", metavar="NAME", help="any numeric field (%(default)s)")
    parser.add_argument("--agent", metavar="NAME", help="only this agent's rollouts")
    _common(parser, "tasks in the list of those that differ most")
    parser.set_defaults(run_command=_compare, run=_run)


def _report_flags(parser: ArgumentParser) -> None:
    parser.description = (
        "Write one self-contained HTML file about a run: no network, readable in print and in the dark."
    )
    parser.add_argument("path", type=Path, metavar="RUN", help="results file, or the folder of one run")
    parser.add_argument("--output", type=Path, metavar="FILE", help="HTML file (<stem>_report.html beside the run)")
    parser.add_argument("--json", action="store_true", help="say as JSON what was written")
    parser.set_defaults(run_command=_report, run=_run)


def _aggregate_flags(parser: ArgumentParser) -> None:
    parser.description = "Merge the results of shards, and write metrics over all of them."
    parser.epilog = _AGGREGATE_EPILOG
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.add_argument(
        "--input",
        nargs="+",
        action="extend",
        required=True,
        metavar="PATTERN",
        help="results files of the shards, or folders of one each",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="merged results file; optional for one shard")
    parser.add_argument(
        "--on-duplicate",
        choices=["refuse", "first", "last"],
        default="refuse",
        help="what to do where two rows of one rollout differ (%(default)s); the same bytes twice always count once",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a merged run that is there")
    parser.add_argument(
        "--count-missing-rollouts-as-zero",
        action="store_true",
        help="count owed rollouts without a row and without a recorded failure as reward 0, in the metrics only",
    )
    parser.add_argument(
        "--count-failure-classes-as-zero",
        type=lambda words: [word for word in words.split(",") if word],
        action="extend",
        default=[],
        metavar="CLASS,…",
        help="count rollouts that failed with one of these classes as reward 0, in the metrics only",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run_command=_aggregate, run=_run)


def _common(parser: ArgumentParser, listed: str) -> None:
    parser.add_argument("--top", type=_positive, default=10, metavar="N", help=f"{listed} (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{text!r} is no finite number")
    return value


def _run(arguments: Namespace) -> int:
    command: Callable[[Namespace], tuple[dict[str, Any], Iterable[RenderableType]]] = arguments.run_command
    as_json, parts = command(arguments)
    text = json.dumps(as_json, indent=2) if arguments.json else as_text(parts)
    with contextlib.suppress(BrokenPipeError):  # the reader has seen enough
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    return 0


def _aggregate(arguments: Namespace) -> tuple[dict[str, Any], Iterable[RenderableType]]:
    runs = find_results(arguments.input)
    zeros = ZeroRules(
        missing=arguments.count_missing_rollouts_as_zero,
        failure_classes=frozenset(arguments.count_failure_classes_as_zero),
    )
    if arguments.output is None:
        if len(runs) > 1:
            raise ConfigurationError(f"{len(runs)} shards need an --output to be merged into")
        output = runs[0]
        found = aggregate(runs, on_duplicate=arguments.on_duplicate, zeros=zeros)
    else:
        output = ArtifactPaths(arguments.output)
        refuse_output(output, runs, overwrite=arguments.overwrite)
        found = merge(runs, output, on_duplicate=arguments.on_duplicate, zeros=zeros)
    write_entries(output.aggregate_metrics, found)
    written = [path for path in output.all_files() if path.exists()]
    merged = arguments.output is not None
    title = f"{len(runs)} shard(s) merged into {output.results}" if merged else f"{output.results}"
    lines = ["Written:", *(f"  {path}" for path in (written if merged else [output.aggregate_metrics]))]
    return _aggregate_json(found, runs, output), [*aggregate_parts(found, title), *lines]


def _aggregate_json(found: RunAggregate, runs: list[ArtifactPaths], output: ArtifactPaths) -> dict[str, Any]:
    return {
        "shards": [str(run.results) for run in runs],
        "results": str(output.results),
        "aggregate_metrics": str(output.aggregate_metrics),
        "coverage": found.coverage(),
        "owed_is_known": found.complete,
        "failed_attempts": found.failed_attempts,
        "remarks": found.remarks,
        "agents": [agent.entry() for _, agent in sorted(found.agents.items())],
    }


def _profile(arguments: Namespace) -> tuple[dict[str, Any], Iterable[RenderableType]]:
    found = profile(run_at(arguments.path), pass_at=arguments.pass_at)
    most = arguments.top
    as_json = {
        "pass_at": found.pass_at,
        "coverage": found.aggregate.coverage(),
        "hardest": [task.task for task in found.hardest(most)],
        "flakiest": [task.task for task in found.flakiest(most)],
        "slowest": [task.task for task in found.slowest(most)],
        "never_scored": [task.task for task in found.never_scored()],
        "tasks": [task.to_json() for task in found.tasks],
        "remarks": found.aggregate.remarks,
    }
    return as_json, profile_parts(found, most)


def _compare(arguments: Namespace) -> tuple[dict[str, Any], Iterable[RenderableType]]:
    found = compare_runs(run_at(arguments.a), run_at(arguments.b), metric=arguments.metric, agent=arguments.agent)
    return found.to_json(), comparison_parts(found, arguments.top)


def _report(arguments: Namespace) -> tuple[dict[str, Any], Iterable[RenderableType]]:
    # Imported here: drawing takes a quarter of a second to import, which the three other commands would pay.
    from rollgym.driver.evals.report import write_report

    run = run_at(arguments.path)
    output = arguments.output or run.results.with_name(run.results.stem + "_report.html")
    if output.is_dir():
        raise ConfigurationError(f"--output {output} is a folder; name a file in it, such as report.html")
    written = write_report(run, output)
    return written, [f"Written: {output} ({written['bytes']:,} bytes)"]


_DEFINITIONS = {
    "aggregate": _aggregate_flags,
    "profile": _profile_flags,
    "compare": _compare_flags,
    "report": _report_flags,
}
