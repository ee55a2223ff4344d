"""The history on disk: what is written is read again, what cannot be used is said."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.head.final_metrics import parse_exposition
from rollgym.head.run_records import RunRecord, RunReport
from rollgym.head.run_store import SCHEMA_VERSION, RunStore

Make = Callable[..., dict[str, Any]]


def run(report: Make, run_id: str, *, updated_at: float = 1.0, revision: int = 1, **changes: Any) -> RunRecord:
    metrics, _ = parse_exposition("# TYPE rollgym_x gauge\nrollgym_x 1\n")
    return RunRecord(run_id, RunReport.model_validate(report(**changes)), updated_at, revision, metrics)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "deep" / "er" / "head.sqlite3")


def test_a_run_survives_closing_and_opening(path: str, report: Make) -> None:
    store, written = RunStore(path), run(report, "r1", summary={"a": [1, None]})
    store.put(written, keep=10)
    store.close()
    store = RunStore(path)
    assert store.get("r1") == written
    assert store.get("r2") is None
    store.close()


def test_what_was_written_is_there_for_another_connection_at_once(path: str, report: Make) -> None:
    """So a kill of the process loses no report that was answered."""
    store, other = RunStore(path), RunStore(path)
    store.put(run(report, "r1"), keep=10)
    assert other.get("r1") is not None
    store.close()
    other.close()


def test_a_run_is_replaced_whole(report: Make) -> None:
    store = RunStore(":memory:")
    store.put(run(report, "r1"), keep=10)
    store.put(run(report, "r1", revision=2, reward_mean=None), keep=10)
    found = store.get("r1")
    assert found is not None
    assert (found.revision, found.report.reward_mean, store.count()) == (2, None, 1)
    store.close()


def test_the_longest_untouched_run_goes_first(report: Make) -> None:
    store = RunStore(":memory:")
    for index, updated_at in enumerate([5.0, 1.0, 3.0]):
        store.put(run(report, f"r{index}", updated_at=updated_at), keep=2)
    assert [record.run_id for record in store.last_touched(10)] == ["r0", "r2"]
    store.close()


def test_lists_are_in_their_order(report: Make) -> None:
    store = RunStore(":memory:")
    for run_id, started_at, updated_at in (("a", 1, 9), ("b", 2, 8), ("c", 3, 7)):
        store.put(run(report, run_id, started_at=started_at, updated_at=updated_at), keep=10)
    assert [record.run_id for record in store.newest(2)] == ["c", "b"]
    assert [record.run_id for record in store.last_touched(2)] == ["a", "b"]
    store.close()


def test_a_row_that_cannot_be_read_hides_no_other(path: str, report: Make) -> None:
    store = RunStore(path)
    store.put(run(report, "good"), keep=10)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO runs VALUES ('bad', 1, 1, 1, '{', '[]')")
    connection.close()
    assert [record.run_id for record in store.newest(10)] == ["good"]
    store.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(ConfigurationError, match=r"notes\.txt"):
        RunStore(str(path))
    assert path.read_text().startswith("not a database")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--database"):
        RunStore(str(tmp_path))


def test_a_newer_schema_is_refused(path: str) -> None:
    RunStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(ConfigurationError, match="newer"):
        RunStore(path)
