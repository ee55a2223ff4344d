"""The end of a run as text and as data: every figure beside what it is over, whatever was or was not seen."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollgym.driver.artifacts.manifest import RolloutCounts
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.outcomes import Failed, Timings
from rollgym.driver.rollout_facts import Tokens
from rollgym.driver.run_report import LoopHealth, RunReport, exit_code
from rollgym.driver.statistics import RunStatistics
from rollgym.driver.summary import summary_json, summary_text
from unit.driver.test_statistics import facts


def report(**fields: Any) -> RunReport:
    given: dict[str, Any] = {
        "run_id": "r1", "state": "finished", "counts": RolloutCounts(), "statistics": RunStatistics(), "failures": {},
        "paths": ArtifactPaths(Path("/nowhere/rows.jsonl")), "elapsed_s": 10.0, "done_now": 0, "rows_now": 0,
        "health": LoopHealth(), "remarks": [],
    }  # fmt: skip
    return RunReport(**(given | fields))


def scored(*rewards: float) -> RunStatistics:
    found = RunStatistics()
    for task, reward in enumerate(rewards):
        found.add_row((task, 0), facts(reward))
        found.add_timings(Timings(0.1, None, 1.0))
    return found


def busy() -> RunReport:
    statistics = scored(1.0, 0.0)
    statistics.add_row((2, 0), facts(None, masked=True, failure_kind="env_lost"))
    statistics.add_row((3, 0), facts(1.0, truncated=True, never_ran=True, tokens=Tokens(input=0, output=0)))
    statistics.add_failed_attempt(Failed("env_busy", "all [bold]full[/bold] :smile:", False, Timings(0, None, 1)))
    counts = RolloutCounts(succeeded=3, masked=1, failed=1, drained=2, cancelled=1, missing=1)
    return report(
        statistics=statistics, counts=counts, failures={"env_busy": 1}, done_now=5, rows_now=4, state="incomplete"
    )


def test_the_headline_stands_beside_what_it_is_over() -> None:
    text = summary_text(busy())
    columns = text.splitlines()
    at = next(number for number, line in enumerate(columns) if "expected" in line)
    assert columns[at].split() == ["expected", "scored", "masked", "failed", "drained", "cancelled", "missing"]
    assert columns[at + 2].split() == ["9", "3", "1", "1", "2", "1", "1"]


@pytest.mark.parametrize(
    "said",
    [
        "Failed for good: env_busy 1",
        "Masked (not scored): env_lost 1",
        "1 × all [bold]full[/bold] :smile:",
        "Cut short by their own turns or tokens, scored all the same: 1",
        "Check these: 1 row(s) whose model read no token (first: 3-0)",
        "Time of this start: 10.0 s, 4 rollout(s) with a row (1,440/h), 1 failed for good",
        "Incomplete: 1 failed for good, 4 still owed.",
        "The same command with --resume --output /nowhere/rows.jsonl runs what is owed, with ++retry_failed=true tries",
    ],
)
def test_what_happened_is_said(said: str) -> None:
    assert said in summary_text(busy())


@pytest.mark.parametrize(
    "make", [report, busy, lambda: report(statistics=scored(1e308, 1e308))], ids=["empty", "busy", "huge"]
)
def test_the_data_is_json_and_holds_no_figure_that_is_none(make: Callable[[], RunReport]) -> None:
    text = json.dumps(summary_json(make()), allow_nan=False)
    assert "NaN" not in text
    assert summary_text(make())


def test_nothing_scored_has_no_mean_and_no_division() -> None:
    found = summary_json(report())
    assert found["reward"] == {"rollouts": 0, "tasks": 0, "mean": None}
    assert found["coverage"]["expected"] == 0
    assert found["this_start"]["rollouts_per_hour"] is None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_percentiles_of_few_are_defined_and_never_above_the_longest(count: int) -> None:
    latency = summary_json(report(statistics=scored(*[1.0] * count), done_now=count, rows_now=count))["this_start"][
        "latency_s"
    ]
    assert latency["count"] == count
    assert all(0 < latency[name] <= latency["max"] for name in ("p50", "p90", "p99"))
    assert math.isfinite(latency["p99"])


@pytest.mark.parametrize(
    ("fields", "require_complete", "code"),
    [
        ({"counts": RolloutCounts()}, True, 0),
        ({"counts": RolloutCounts(succeeded=2)}, True, 0),
        ({"counts": RolloutCounts(succeeded=1, masked=1)}, True, 0),
        ({"counts": RolloutCounts(succeeded=1, failed=1)}, False, 3),
        ({"counts": RolloutCounts(succeeded=1, failed=1)}, True, 1),
        ({"counts": RolloutCounts(succeeded=1, drained=1)}, False, 3),
        ({"counts": RolloutCounts(succeeded=1, missing=1), "state": "failed"}, False, 1),
        ({"state": "interrupted", "note": "SIGINT"}, False, 130),
        ({"state": "interrupted", "note": "SIGTERM"}, True, 143),
    ],
    ids=[
        "nothing-owed", "all-scored", "masked-is-complete", "failed", "failed-but-complete-asked", "drained",
        "collection-failed", "sigint", "sigterm",
    ],
)  # fmt: skip
def test_the_exit_code_says_how_it_ended(fields: dict[str, Any], require_complete: bool, code: int) -> None:
    assert exit_code(report(**fields), require_complete=require_complete) == code


def test_failures_are_no_work_done() -> None:
    counts = RolloutCounts(failed=200)
    refused = report(counts=counts, failures={"env_refused": 200}, done_now=200, state="incomplete")
    assert summary_json(refused)["this_start"]["rollouts_per_hour"] is None
    assert "Time of this start: 10.0 s, 0 rollout(s) with a row, 200 failed for good" in summary_text(refused)


def test_a_title_takes_one_line_however_narrow_its_table_is() -> None:
    titles = [line for line in summary_text(busy()).splitlines() if line.startswith(("Run ", "Reward", "Time "))]
    assert len(titles) == 3
    assert titles[2].endswith("1 failed for good")


def test_rows_that_never_ran_are_a_warning_in_text_and_data() -> None:
    assert summary_json(busy())["warnings"] == ["1 row(s) whose model read no token (first: 3-0)"]
    assert "Check these: 1 row(s) whose model read no token (first: 3-0)" in summary_text(busy())
    assert "warnings" not in summary_json(report())
