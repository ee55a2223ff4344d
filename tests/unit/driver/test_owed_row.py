"""A row on its way: what is read of it, and what of it a result keeps where the answer does not repeat it."""

import json
from pathlib import Path

import pytest

from rollgym.driver.materialized import load_materialized
from rollgym.driver.outcomes import Attempt
from rollgym.driver.owed_row import OwedRow
from rollgym.driver.payloads import Payload

ROW = {
    "_ng_task_index": 0,
    "_ng_rollout_index": 0,
    "agent_ref": {"name": "mine"},
    "tags": {"kind": "odd \ud800"},
    "responses_create_params": {"input": "half a pair: \ud83d", "whole": "\U0001f600"},
}


@pytest.fixture
def row(tmp_path: Path) -> OwedRow:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return OwedRow(load_materialized(path, size_bytes=path.stat().st_size, owed=1), Attempt(0, (0, 0), 2))


def test_an_attempt_is_said_in_the_row(row: OwedRow) -> None:
    try:
        assert len(row.read()) == row.size
        assert json.loads(row.read()) == {**ROW, "_ng_attempt_index": 2}
    finally:
        row.rows.close()


@pytest.mark.parametrize("answer", [{"reward": 1.0}, {"reward": 1.0, "text": "\ud800"}], ids=["plain", "surrogates"])
def test_lone_surrogates_of_a_row_are_the_same_in_its_result(row: OwedRow, answer: dict[str, object]) -> None:
    payload = Payload(json.dumps(answer).encode())
    try:
        payload.put("responses_create_params", row.responses_create_params())
    finally:
        row.rows.close()
    assert row.labels.tags is not None
    payload.put("tags", row.labels.tags)
    kept = {name: ROW[name] for name in ("responses_create_params", "tags")}
    assert json.loads(b"".join(payload.line())) == {**answer, **kept}
    assert list(payload.facts().tags) == ["kind"]
