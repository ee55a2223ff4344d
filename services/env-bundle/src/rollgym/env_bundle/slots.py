"""How many episodes run, how many may, and what became of those that ended. Counting only: no sockets here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


class AtCapacity(Exception):
    """Every slot is taken."""

    def __init__(self, active: int, limit: int) -> None:
        super().__init__(f"Server at capacity: {active}/{limit} sessions active")
        self.active, self.limit = active, limit


class Slot:
    """The place that one session holds until `release`."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.held = True

    def release(self) -> None:
        """Give the place back; a second time does nothing."""
        if self.held:
            self.held = False
            self._slots.in_use -= 1


class Slots:
    """The places of this process, over all environments; `limit` None means no end of them."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.in_use = 0
        self.peak = 0

    def acquire(self) -> Slot:
        """Take a place. Raises AtCapacity."""
        if self.limit is not None and self.in_use >= self.limit:
            raise AtCapacity(self.in_use, self.limit)
        self.in_use += 1
        self.peak = max(self.peak, self.in_use)
        return Slot(self)


@dataclass
class Stats:
    """Totals since the start of the process, for tests and for a person who looks."""

    handshakes: int = 0
    opens: int = 0
    refused: int = 0
    resets: int = 0
    steps: int = 0
    zombie_steps: int = 0
    """Steps of sessions that had lost their slot to the `reap-slot` fault."""
    closes: Counter[str] = field(default_factory=Counter)

    def snapshot(self, slots: Slots) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "active": slots.in_use,
            "peak": slots.peak,
            "limit": slots.limit,
            "handshakes": self.handshakes,
            "opens": self.opens,
            "refused": self.refused,
            "resets": self.resets,
            "steps": self.steps,
            "zombie_steps": self.zombie_steps,
            "closes": dict(self.closes),
        }
