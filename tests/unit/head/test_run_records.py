"""States of a run, and the numbers that are worked out from a report."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from rollgym.head.run_records import MAX_SUMMARY_BYTES, RunRecord, RunReport, RunState, replaces, without_secrets

Make = Callable[..., dict[str, Any]]
NOW = 1_800_000_000.0


def record(report: Make, **changes: Any) -> RunRecord:
    return RunRecord("r1", RunReport.model_validate(report(**changes)), updated_at=NOW, revision=1)


@pytest.mark.parametrize(
    ("reported", "silence_s", "shown"),
    [
        ("running", 19.9, "running"),
        ("running", 20.1, "lost"),
        ("finished", 1e6, "finished"),
        ("incomplete", 1e6, "incomplete"),
        ("failed", 1e6, "failed"),
        ("interrupted", 1e6, "interrupted"),
    ],
)
def test_running_ended_and_died_are_told_apart(report: Make, reported: str, silence_s: float, shown: str) -> None:
    run = record(report, state=reported)
    assert run.state(NOW + silence_s) == shown
    wire = run.to_wire(NOW + silence_s)
    assert (wire["state"], wire["reported_state"], wire["age_s"]) == (shown, reported, round(silence_s, 3))


@pytest.mark.parametrize(
    ("changes", "scored"),
    [
        ({}, 88),
        ({"scored": 80}, 80),
        ({"counts": {"succeeded": 5}}, 5),
        ({"counts": {}}, None),
        ({"counts": {"succeeded": 0, "masked": 0}}, 0),
    ],
    ids=["the succeeded", "as reported", "masked unknown", "nothing known", "none"],
)
def test_the_count_that_the_reward_is_over(report: Make, changes: dict[str, Any], scored: int | None) -> None:
    assert record(report, **changes).scored == scored


def test_numbers_that_were_not_given_stay_absent(report: Make) -> None:
    wire = record(report, counts={"failed": 0}, reward_mean=None, latency_s=None).to_wire(NOW)
    assert wire["counts"] == {
        "succeeded": None, "failed": 0, "drained": None, "cancelled": None, "in_flight": None, "pending": None,
        "masked": None,
    }  # fmt: skip
    assert wire["reward_mean"] is wire["latency_s"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "sleeping"},
        {"counts": {"failed": -1}},
        {"counts": {"failed": "many"}},
        {"failures": {f"class {index}": 1 for index in range(65)}},
        {"started_at": "noon"},
        {"ttl_s": 0},
        {"name": "x" * 501},
    ],
    ids=["state", "negative", "text", "too many classes", "time", "ttl", "name"],
)
def test_a_wrong_report_is_refused(report: Make, changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RunReport.model_validate(report(**changes))


def test_a_summary_over_the_limit_costs_only_itself(report: Make) -> None:
    large = RunReport.model_validate(report(summary={"text": "x" * MAX_SUMMARY_BYTES}))
    kept, warnings = without_secrets(large)
    assert kept.summary is None
    assert kept.reward_mean == 0.625
    assert "summary" in warnings[0]


@pytest.mark.parametrize(
    ("known_at", "new_at", "news"),
    [(None, None, True), (5.0, None, True), (5.0, 6.0, True), (5.0, 5.0, True), (5.0, 4.0, False)],
)
def test_an_overtaken_report_is_no_news(report: Make, known_at: float | None, new_at: float | None, news: bool) -> None:
    known = record(report, sent_at=known_at)
    assert replaces(RunReport.model_validate(report(sent_at=new_at)), known) is news
    assert replaces(RunReport.model_validate(report(sent_at=new_at)), None)


def test_only_running_and_lost_runs_have_not_ended() -> None:
    assert [state.value for state in RunState if not state.ended] == ["running", "lost"]
