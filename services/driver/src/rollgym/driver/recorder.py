"""What became of each attempt, written down: file first, then ledger, figures and metrics.

A rollout counts as done when its line is in its file, not before; so the counts are never ahead of the artifacts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from rollgym.common import jsonx
from rollgym.common.redaction import redact
from rollgym.driver.artifacts.journal import Event, journal_line
from rollgym.driver.artifacts.writer import ArtifactWriter
from rollgym.driver.ledger import Ledger, RolloutState
from rollgym.driver.materialized import MaterializedRows
from rollgym.driver.metrics import DriverMetrics
from rollgym.driver.outcomes import Attempt, Failed, Outcome, Succeeded
from rollgym.driver.payloads import TOKENS_KEY
from rollgym.driver.statistics import RunStatistics


@dataclass
class Recorder:
    """Records one run. `on_row(position, line)` hears of every row that was written: how results are retained."""

    rows: MaterializedRows
    ledger: Ledger
    statistics: RunStatistics
    metrics: DriverMetrics
    writer: ArtifactWriter
    on_row: Callable[[int, bytes], None] | None = None
    last_failure: dict[int, str] = field(default_factory=dict)
    """Failure class of rollouts that are to be tried again, by position; gone when they end."""

    def dispatched(self, attempt: Attempt) -> None:
        self.ledger.move(attempt.position, RolloutState.IN_FLIGHT)
        self._note("dispatched", attempt)

    async def record(self, attempt: Attempt, outcome: Outcome, *, last: bool) -> None:
        """Write the outcome down; `last` says that a failure is final. Raises ArtifactError."""
        if isinstance(outcome, Succeeded):
            await self._row(attempt, outcome)
        else:
            await self._failure(attempt, outcome, last=last)

    def cancelled(self, attempt: Attempt, seconds: float) -> None:
        self.ledger.move(attempt.position, RolloutState.CANCELLED)
        self.metrics.cancelled()
        self._note("cancelled", attempt, seconds)

    def drained(self, attempt: Attempt) -> None:
        self.ledger.move(attempt.position, RolloutState.DRAINED)
        self.statistics.latency.record_drained()
        self.metrics.drained()
        self._note("drained", attempt)

    def _note(self, event: Event, attempt: Attempt, seconds: float | None = None) -> None:
        task, rollout = attempt.key
        self.writer.note(journal_line(event, task, rollout, attempt.number, seconds))

    async def _row(self, attempt: Attempt, outcome: Succeeded) -> None:
        masked = outcome.facts.masked
        task, rollout = attempt.key

        def written() -> None:
            self.ledger.move(attempt.position, RolloutState.MASKED if masked else RolloutState.SUCCEEDED)
            self.last_failure.pop(attempt.position, None)
            self.statistics.add_row(attempt.key, outcome.facts)
            self.statistics.add_timings(outcome.timings)
            self.metrics.succeeded(outcome)
            if self.on_row is not None:
                self.on_row(attempt.position, b"".join(outcome.line))

        event: Event = "masked" if masked else "succeeded"
        journal = journal_line(event, task, rollout, attempt.number, outcome.timings.rollout_s)
        await self.writer.result(outcome.line, journal, written)

    async def _failure(self, attempt: Attempt, failed: Failed, *, last: bool) -> None:
        task, rollout = attempt.key

        def written() -> None:
            self.statistics.add_failed_attempt(failed)
            self.metrics.attempt_failed(failed)
            if last:
                self.last_failure.pop(attempt.position, None)
                self.ledger.fail(attempt.position, failed.failure_class)
                self.metrics.failed_for_good()
            else:
                self.last_failure[attempt.position] = failed.failure_class
                self.ledger.move(attempt.position, RolloutState.OWED)

        seconds = failed.timings.rollout_s
        journal = journal_line("failed", task, rollout, attempt.number, seconds, failed.failure_class, terminal=last)
        await self.writer.failure(self._failure_line(attempt, failed), journal, written)

    def _failure_line(self, attempt: Attempt, failed: Failed) -> bytes:
        """Identity, class, message, times; never a reward."""
        line = {
            "_ng_task_index": attempt.key[0],
            "_ng_rollout_index": attempt.key[1],
            "_ng_attempt_index": attempt.number,
            "agent_ref": msgspec.json.decode(self.rows.labels_of(attempt.position).agent_ref),
            "_ng_failure_class": failed.failure_class,
            "_ng_failure_terminal": failed.terminal,
            "error_message": failed.shown_message,
            "data": redact(failed.data),
            "rollgym_timings": failed.timings.to_json(),
            "_rollgym_latency_s": round(failed.timings.rollout_s, 3),
        }
        if tokens := failed.tokens.to_json():
            line[TOKENS_KEY] = tokens
        if failed.masked:
            line["mask_sample"] = True
        return jsonx.dumps(line)
