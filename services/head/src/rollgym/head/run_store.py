"""The run history on disk: one SQLite file in WAL mode. Owns the connection and its schema; blocks, one thread only."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pydantic

from rollgym.common import jsonx
from rollgym.common.errors import ConfigurationError
from rollgym.common.logs import get_logger
from rollgym.head.final_metrics import FinalMetric
from rollgym.head.run_records import RunRecord, RunReport
from rollgym.head.settings import IN_MEMORY

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 5.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    started_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    revision INTEGER NOT NULL,
    report BLOB NOT NULL,
    metrics BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_by_start ON runs (started_at DESC);
CREATE INDEX IF NOT EXISTS runs_by_update ON runs (updated_at DESC);
"""
_COLUMNS = "run_id, updated_at, revision, report, metrics"
_Row = tuple[str, float, int, bytes, bytes]

log = get_logger(__name__)


class RunStore:
    """Runs by id. A `put` that returned survives a kill of the process (WAL, one transaction each)."""

    def __init__(self, path: str) -> None:
        """Open or create the file. Raises ConfigurationError saying what is wrong with it; never deletes one."""
        self.path = path
        try:
            if path != IN_MEMORY:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise ConfigurationError(
                f"cannot use {path} as the run history: {error}; name another file with --database", database=path
            ) from error

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise ConfigurationError(
                f"{self.path} was written by a newer Rollgym (schema {version}, this one reads {SCHEMA_VERSION})",
                database=self.path,
            )
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        self._connection.close()

    def put(self, record: RunRecord, *, keep: int) -> None:
        """Write one run whole, and let go of those untouched for longest past `keep`."""
        report = record.report.model_dump_json().encode()
        metrics = jsonx.dumps([metric.to_wire() for metric in record.metrics])
        values = (record.run_id, record.report.started_at, record.updated_at, record.revision, report, metrics)
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO runs (run_id, started_at, updated_at, revision, report, metrics)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                values,
            )
            self._connection.execute(
                "DELETE FROM runs WHERE run_id IN (SELECT run_id FROM runs ORDER BY updated_at DESC LIMIT -1 OFFSET ?)",
                (keep,),
            )

    def get(self, run_id: str) -> RunRecord | None:
        return next(self._select("WHERE run_id = ?", (run_id,)), None)

    def newest(self, limit: int) -> list[RunRecord]:
        """The runs that started last, newest first."""
        return list(self._select("ORDER BY started_at DESC, run_id LIMIT ?", (limit,)))

    def last_touched(self, limit: int) -> list[RunRecord]:
        """The runs that were reported last, newest first."""
        return list(self._select("ORDER BY updated_at DESC, run_id LIMIT ?", (limit,)))

    def count(self) -> int:
        (count,) = self._connection.execute("SELECT count(*) FROM runs").fetchone()
        return int(count)

    def check(self) -> None:
        """Raises sqlite3.Error where the file does not answer."""
        self._connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _select(self, rest: str, values: tuple[object, ...]) -> Iterator[RunRecord]:
        rows: list[_Row] = self._connection.execute(f"SELECT {_COLUMNS} FROM runs {rest}", values).fetchall()
        for row in rows:
            if (record := _record(row)) is not None:
                yield record


def _record(row: _Row) -> RunRecord | None:
    """A run from its row; one that this version cannot read is passed over, said in the log."""
    run_id, updated_at, revision, report, metrics = row
    try:
        return RunRecord(
            run_id=run_id,
            report=RunReport.model_validate_json(report),
            updated_at=updated_at,
            revision=revision,
            metrics=tuple(FinalMetric.from_wire(wire) for wire in jsonx.loads(metrics)),
        )
    except (pydantic.ValidationError, ValueError, TypeError) as error:
        log.warning("a run of the history cannot be read", run_id=run_id, problem=str(error)[:500])
        return None
