"""The ledger: every rollout in one state, counts that sum to what is owed, nothing undone."""

import pytest

from rollgym.driver.ledger import DONE, Ledger, RolloutState


def test_every_rollout_is_in_exactly_one_state() -> None:
    ledger = Ledger(10)
    for position, state in enumerate(
        [
            RolloutState.SUCCEEDED,
            RolloutState.MASKED,
            RolloutState.DRAINED,
            RolloutState.CANCELLED,
            RolloutState.IN_FLIGHT,
        ]
    ):
        ledger.move(position, state)
    ledger.fail(5, "env_busy")
    counts = ledger.counts()
    assert counts.owed == 10
    assert (counts.succeeded, counts.masked, counts.failed, counts.drained, counts.cancelled, counts.missing) == (
        1, 1, 1, 1, 1, 5,
    )  # fmt: skip
    assert ledger.done == 3
    assert ledger.failures == {"env_busy": 1}


@pytest.mark.parametrize("state", sorted(DONE))
@pytest.mark.parametrize("after", list(RolloutState))
def test_what_is_done_stays_done(state: RolloutState, after: RolloutState) -> None:
    ledger = Ledger(1)
    ledger.move(0, state)
    with pytest.raises(ValueError, match="already"):
        ledger.move(0, after)
    assert ledger.state(0) is state


def test_a_rollout_may_be_tried_again_until_it_is_done() -> None:
    ledger = Ledger(1)
    for state in (RolloutState.IN_FLIGHT, RolloutState.OWED, RolloutState.IN_FLIGHT, RolloutState.SUCCEEDED):
        ledger.move(0, state)
    assert (ledger.counts().succeeded, ledger.counts().owed) == (1, 1)


def test_an_empty_run_owes_nothing() -> None:
    assert (len(Ledger(0)), Ledger(0).done, Ledger(0).counts().owed) == (0, 0, 0)


def test_what_is_in_flight_when_nothing_runs_any_more_is_owed() -> None:
    ledger = Ledger(4)
    ledger.move(0, RolloutState.SUCCEEDED)
    ledger.move(1, RolloutState.IN_FLIGHT)
    ledger.move(2, RolloutState.CANCELLED)
    ledger.nothing_runs()
    assert [ledger.state(position) for position in range(4)] == [
        RolloutState.SUCCEEDED, RolloutState.OWED, RolloutState.CANCELLED, RolloutState.OWED,
    ]  # fmt: skip
    assert [ledger.count(state) for state in (RolloutState.IN_FLIGHT, RolloutState.OWED)] == [0, 2]
    assert ledger.counts().owed == 4
