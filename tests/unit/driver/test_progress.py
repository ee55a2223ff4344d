"""The line that says how far a run is: what it counts as done, and what its rate is of."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from rollgym.driver.console import Console, silent_console
from rollgym.driver.ledger import Ledger, RolloutState
from rollgym.driver.outcomes import Timings
from rollgym.driver.progress import Progress
from rollgym.driver.statistics import RunStatistics
from unit.driver.test_statistics import facts


@dataclass
class Going:
    """A run of ten rollouts, as far as a test has taken it, on a clock that the test sets."""

    console: Console
    ledger: Ledger = field(default_factory=lambda: Ledger(10))
    statistics: RunStatistics = field(default_factory=RunStatistics)
    now_s: float = 0.0

    def begun(self) -> Progress:
        return Progress(self.console, self.ledger, self.statistics, 10.0, clock=lambda: self.now_s)

    def score(self, *positions: int) -> None:
        for at in positions:
            self.ledger.move(at, RolloutState.SUCCEEDED)
            self.statistics.add_row((at, 0), facts(0.5))
            self.statistics.add_timings(Timings(0.1, None, 1.0))

    def fail(self, *positions: int) -> None:
        for at in positions:
            self.ledger.fail(at, "env_refused")


@pytest.fixture
def going() -> Iterator[Going]:
    with silent_console() as console:
        yield Going(console)


def test_the_rate_is_of_rows_and_the_time_left_of_all_that_ended(going: Going) -> None:
    progress = going.begun()
    going.score(0, 1)
    going.fail(2, 3)
    going.now_s = 4.0
    said = progress.line()
    assert said.startswith("4/10 done, 0 in flight, 2 failed | ")
    assert "| 1,800/h, p50 " in said
    assert said.endswith("| 6.0 s left")


def test_failures_alone_have_no_rate(going: Going) -> None:
    progress = going.begun()
    going.fail(*range(5))
    going.now_s = 5.0
    assert progress.line() == "5/10 done, 0 in flight, 5 failed | 5.0 s left"


def test_rows_of_an_earlier_start_are_done_but_not_in_the_rate(going: Going) -> None:
    going.score(0, 1, 2, 3)
    progress = going.begun()
    assert "/h" not in progress.line()
    going.score(4)
    going.now_s = 2.0
    assert progress.line().startswith("5/10 done, ")
    assert "| 1,800/h" in progress.line()


def test_masked_rows_are_rows(going: Going) -> None:
    progress = going.begun()
    going.ledger.move(0, RolloutState.MASKED)
    going.now_s = 1.0
    assert progress.line() == "1/10 done, 0 in flight, 1 masked | 3,600/h | 9.0 s left"
