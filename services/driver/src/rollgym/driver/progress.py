"""One line that says how far a run is: redrawn on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from rollgym.driver.background import repeatedly
from rollgym.driver.console import Console
from rollgym.driver.ledger import Ledger, RolloutState
from rollgym.driver.statistics import RunStatistics

LIVE_INTERVAL_S = 0.5


@dataclass
class Progress:
    """Progress of one run. Rates are of the rows of this start of it, rewards over everything scored."""

    console: Console
    ledger: Ledger
    statistics: RunStatistics
    interval_s: float
    clock: Callable[[], float] = time.monotonic
    _began_at: float = 0.0
    _done_before: int = 0
    _rows_before: int = 0

    def __post_init__(self) -> None:
        self._began_at = self.clock()
        self._done_before, self._rows_before = self.ledger.done, self.ledger.with_row

    def line(self) -> str:
        """``120/200 done, 64 in flight, 2 failed | reward 0.613 over 118 | 3,412/h, p50 1.2 s | 36 s left``."""
        ledger, done = self.ledger, self.ledger.done
        parts = [f"{done}/{len(ledger)} done, {ledger.count(RolloutState.IN_FLIGHT)} in flight"]
        for state in (RolloutState.FAILED, RolloutState.MASKED, RolloutState.DRAINED):
            if ledger.count(state):
                parts[0] += f", {ledger.count(state)} {state.name.lower()}"
        retries = self.statistics.failed_attempts.total() - ledger.count(RolloutState.FAILED)
        if retries > 0:
            parts[0] += f", {retries} attempt(s) failed and tried again"
        mean = self.statistics.rewards.mean
        if mean is not None:
            parts.append(f"reward {mean:.3f} over {self.statistics.rewards.count}")
        elapsed_s = self.clock() - self._began_at
        rows, ended = ledger.with_row - self._rows_before, done - self._done_before
        if rows and elapsed_s > 0:
            median = self.statistics.latency.quantile(0.5)
            parts.append(f"{rows / elapsed_s * 3600:,.0f}/h" + (f", p50 {seconds(median)}" if median else ""))
        if ended and done < len(ledger):
            parts.append(f"{seconds((len(ledger) - done) * elapsed_s / ended)} left")
        return " | ".join(parts)

    def _show(self) -> None:
        if self.console.is_live:
            self.console.redraw(self.line())
        else:
            self.console.say(self.line())

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        live = self.console.is_live
        try:
            async with repeatedly(self._show, LIVE_INTERVAL_S if live else self.interval_s, "progress"):
                yield
        finally:
            self._show()
            if live:
                self.console.say("")


def seconds(value: float) -> str:
    """A duration for people: ``41 ms``, ``1.2 s``, ``3 min 5 s``, ``2 h 4 min``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"
