"""Runs over HTTP: reports in, lists and single runs out."""

import sqlite3
from typing import Any

import pytest

from rollgym.head.run_store import RunStore


async def test_a_report_comes_back_as_it_was_sent(head: Any) -> None:
    answer = await head.report("r1", run_id="r1")
    assert answer.status_code == 201
    assert answer.json()["warnings"] == []
    run = await head.json("/v1/runs/r1")
    assert run["latency_s"] == {"p50": 1.5, "p90": 2.5, "p99": 9.25, "max": 10.0}
    assert run["counts"]["succeeded"] == 88
    assert (run["state"], run["scored"], run["owed"], run["revision"], run["metrics"]) == ("running", 88, 200, 1, [])
    assert (await head.report("r1")).status_code == 200
    assert (await head.json("/v1/runs/r1"))["revision"] == 2


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/r1", "/ui/runs/r1", "/", "/metrics"])
async def test_text_that_no_page_can_hold_is_replaced(head: Any, path: str) -> None:
    body = (
        r'{"state": "failed", "started_at": 1, "name": "a\ud800b", "summary": {"k\udfff": ["\ud800 ü \ud83d\ude00"]}}'
    )
    assert (await head.client.put("/v1/runs/r1", content=body)).status_code == 201
    assert (await head.client.get(path, headers={"Accept": "text/html"})).status_code == 200
    run = await head.json("/v1/runs/r1")
    assert (run["name"], run["summary"]) == ("a?b", {"k?": ["? ü 😀"]})


async def test_a_silent_run_is_shown_as_lost_and_comes_back(head: Any) -> None:
    await head.report("r1")
    head.clock.advance(21)
    (run,) = (await head.json("/v1/runs"))["runs"]
    assert (run["state"], run["reported_state"]) == ("lost", "running")
    await head.report("r1")
    assert (await head.json("/v1/runs/r1"))["state"] == "running"


async def test_the_newest_runs_come_first_and_the_rest_is_counted(head: Any) -> None:
    for index in range(5):
        await head.report(f"r{index}", started_at=index)
    answer = await head.json("/v1/runs?limit=2")
    assert ([run["run_id"] for run in answer["runs"]], answer["total"]) == (["r4", "r3"], 5)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1e3", "", "٣"])
async def test_a_bad_limit_is_refused(head: Any, limit: str) -> None:
    answer = await head.client.get("/v1/runs", params={"limit": limit})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"run_id": "other"}, "path's"),
        ({"state": "lost"}, "never reported"),
        ({"state": "sleeping"}, "state"),
        ({"counts": {"failed": -1}}, "counts.failed"),
        ({"counts": [], "owed": -3, "started_at": None}, "owed"),
    ],
)
async def test_a_wrong_report_is_refused_field_by_field(head: Any, changes: dict[str, Any], says: str) -> None:
    answer = await head.report("r1", **changes)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert says in answer.json()["message"]
    assert (await head.json("/v1/runs"))["total"] == 0


@pytest.mark.parametrize("path", ["/v1/runs/nobody", "/v1/runs/nobody/events"])
async def test_an_unknown_run_is_404(head: Any, path: str) -> None:
    answer = await head.client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "run_unknown")


async def test_an_overtaken_report_changes_nothing(head: Any) -> None:
    await head.report("r1", state="finished", sent_at=10, ended_at=head.clock.now)
    answer = await head.report("r1", state="running", sent_at=9)
    assert (answer.status_code, answer.json()["state"]) == (200, "finished")
    assert "later report" in answer.json()["warnings"][0]


async def test_bad_metrics_cost_a_run_nothing_but_themselves(head: Any) -> None:
    answer = await head.report("r1", state="finished", metrics_text="rollgym_x one")
    assert answer.status_code == 201
    assert "metrics_text" in answer.json()["warnings"][0]
    assert (await head.json("/v1/runs/r1"))["state"] == "finished"


async def test_a_disk_that_refuses_costs_durability_not_the_view(head: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    await head.report("r0", started_at=1)
    # The disk is the boundary here; nothing portable fills one.
    monkeypatch.setattr(RunStore, "put", full)
    answer = await head.report("r1")
    assert "disk is full" in answer.json()["warnings"][0]
    assert [run["run_id"] for run in (await head.json("/v1/runs"))["runs"]] == ["r1", "r0"]
    ready = await head.client.get("/ready")
    assert ready.status_code == 503
    assert "disk is full" in ready.json()["checks"]["run history"]

    monkeypatch.undo()
    assert (await head.report("r2")).json()["warnings"] == []
    assert (await head.client.get("/ready")).status_code == 200
    assert (await head.json("/v1/runs"))["total"] == 3
