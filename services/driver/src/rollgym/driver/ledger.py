"""The ledger of a run: every owed rollout in exactly one state, one byte each."""

from __future__ import annotations

from enum import IntEnum

from rollgym.driver.artifacts.manifest import RolloutCounts
from rollgym.driver.bounded_counter import BoundedCounter


class RolloutState(IntEnum):
    """Where a rollout stands. `OWED`: not reached, or waiting for another attempt."""

    OWED = 0
    IN_FLIGHT = 1
    SUCCEEDED = 2
    MASKED = 3
    FAILED = 4
    DRAINED = 5
    CANCELLED = 6


DONE = frozenset({RolloutState.SUCCEEDED, RolloutState.MASKED, RolloutState.FAILED})
_DONE_CODES = bytes(DONE)


class Ledger:
    """States by position. A rollout that has its row, or has failed for good, never changes state again."""

    def __init__(self, owed: int) -> None:
        self._states = bytearray(owed)
        self._counts = [0] * len(RolloutState)
        self._counts[RolloutState.OWED] = owed
        self.failures = BoundedCounter()
        """Finally failed rollouts by failure class."""

    def __len__(self) -> int:
        return len(self._states)

    def state(self, position: int) -> RolloutState:
        return RolloutState(self._states[position])

    def move(self, position: int, state: RolloutState) -> None:
        before = self._states[position]
        if before in _DONE_CODES:
            name = RolloutState(before).name
            raise ValueError(f"rollout at {position} is {name} already, it cannot become {state.name}")
        self._states[position] = state
        self._counts[before] -= 1
        self._counts[state] += 1

    def fail(self, position: int, failure_class: str) -> None:
        self.move(position, RolloutState.FAILED)
        self.failures.count_one(failure_class)

    def nothing_runs(self) -> None:
        """The run is over: what is in flight still has no end on record, and is owed."""
        self._states = self._states.replace(bytes([RolloutState.IN_FLIGHT]), bytes([RolloutState.OWED]))
        self._counts[RolloutState.OWED] += self._counts[RolloutState.IN_FLIGHT]
        self._counts[RolloutState.IN_FLIGHT] = 0

    def count(self, state: RolloutState) -> int:
        return self._counts[state]

    @property
    def done(self) -> int:
        """Rollouts that this run owes no more: with a row, or failed for good."""
        return sum(self._counts[state] for state in DONE)

    @property
    def with_row(self) -> int:
        """Rollouts that have a result, masked ones included: what rates are of, since a failure is no work done."""
        return self._counts[RolloutState.SUCCEEDED] + self._counts[RolloutState.MASKED]

    def counts(self) -> RolloutCounts:
        """Counts by state; what is in flight is still owed."""
        return RolloutCounts(
            succeeded=self._counts[RolloutState.SUCCEEDED],
            masked=self._counts[RolloutState.MASKED],
            failed=self._counts[RolloutState.FAILED],
            drained=self._counts[RolloutState.DRAINED],
            cancelled=self._counts[RolloutState.CANCELLED],
            missing=self._counts[RolloutState.OWED] + self._counts[RolloutState.IN_FLIGHT],
        )
