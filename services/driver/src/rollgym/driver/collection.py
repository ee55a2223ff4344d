"""Collection: rows in, artifacts out, under one limit of rollouts in flight.

Workers pull attempts from a queue; there are never more tasks than rollouts in flight. A pure function of its
arguments: no module-level state, no signal handler, no process-wide setting is touched here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rollgym.common.errors import ArtifactError
from rollgym.common.failures import FailureClass
from rollgym.driver.attempts import AttemptRunner
from rollgym.driver.dispatch import DispatchBudget, DispatchQueue
from rollgym.driver.materialized import MaterializedRows
from rollgym.driver.outcomes import Attempt, Failed
from rollgym.driver.owed_row import OwedRow
from rollgym.driver.pace import Pace
from rollgym.driver.payload_memory import PayloadMemory
from rollgym.driver.recorder import Recorder

RAMP_BATCH = 8
RESTART_PATIENCE = 4.0
"""Where nothing listens, retries wait 2 s and 4 s by default: as long as a server takes to come back."""
RAMP_PAUSE_S = 0.002
"""Workers start 8 every 2 ms: opening a thousand connections in one tick would stall the loop for 150 ms."""


@dataclass
class Collection:
    """One run of the owed rows. `run` returns when nothing is left to start and nothing is in flight."""

    rows: MaterializedRows
    runner: AttemptRunner
    recorder: Recorder
    queue: DispatchQueue
    budget: DispatchBudget
    workers: int
    max_attempts: int
    granted_anew: Mapping[int, int] = field(default_factory=dict)
    """Attempts that earlier starts used up and that do not count against the limit, by position."""
    payload_memory: PayloadMemory = field(default_factory=PayloadMemory)
    _stopping: bool = False

    async def run(self) -> None:
        """Collect. Raises ArtifactError where a file cannot be written; cancellation stops every rollout first."""
        try:
            async with asyncio.TaskGroup() as group:
                pace = Pace(RAMP_PAUSE_S)
                for number in range(min(self.workers, max(1, len(self.rows)))):
                    if number and number % RAMP_BATCH == 0:
                        await asyncio.sleep(pace.left_s())
                    group.create_task(self._work(), name=f"rollouts-{number}")
        except* ArtifactError as errors:
            raise errors.exceptions[0] from None
        if self._stopping:
            self._drain_rest()

    def stop_starting(self) -> None:
        """Start nothing more; what is in flight goes on to its end, the rest is drained."""
        self._stopping = True
        self.queue.close()

    async def _work(self) -> None:
        while self.budget.allows_start():
            dispatch = await self.queue.take()
            if dispatch is None:
                return
            attempt, due_at = dispatch.attempt, dispatch.due_at
            del dispatch  # what a worker holds while it waits is there a thousand times
            if not self.budget.allows_start():
                self.recorder.drained(attempt)
                break
            await self._attempt(attempt, due_at)
        self.stop_starting()

    async def _attempt(self, attempt: Attempt, due_at: float) -> None:
        begun = time.monotonic()
        self.recorder.dispatched(attempt)
        memory = self.payload_memory.reservation()
        try:
            try:
                outcome = await self.runner.run(OwedRow(self.rows, attempt), begun - due_at, memory)
            except asyncio.CancelledError:
                self.recorder.cancelled(attempt, time.monotonic() - begun)
                raise
            last = isinstance(outcome, Failed) and (outcome.terminal or self._used_up(attempt))
            await self.recorder.record(attempt, outcome, last=last)
        finally:
            memory.give_back()
        if isinstance(outcome, Failed) and not last:
            refused = outcome.failure_class == FailureClass.ENV_REFUSED
            self.queue.retry(attempt, patience=RESTART_PATIENCE if refused else 1.0)

    def _used_up(self, attempt: Attempt) -> bool:
        return attempt.number + 1 >= self.max_attempts + self.granted_anew.get(attempt.position, 0)

    def _drain_rest(self) -> None:
        for attempt in self.queue.undispatched():
            self.recorder.drained(attempt)
