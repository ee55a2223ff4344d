"""The driver's gauges: what the ledger says when somebody looks."""

from prometheus_client import CollectorRegistry

from rollgym.driver.ledger import Ledger, RolloutState
from rollgym.driver.metrics import DriverMetrics


def test_what_is_in_flight_and_owed_is_what_the_ledger_says() -> None:
    registry, ledger = CollectorRegistry(), Ledger(6)
    DriverMetrics(registry, ledger)

    def seen() -> tuple[float | None, float | None]:
        names = ("rollgym_rollouts_in_flight", "rollgym_rollouts_pending")
        return registry.get_sample_value(names[0]), registry.get_sample_value(names[1])

    assert seen() == (0, 6)
    for position in range(5):
        ledger.move(position, RolloutState.IN_FLIGHT)
    assert seen() == (5, 6)
    for position, state in enumerate((RolloutState.SUCCEEDED, RolloutState.MASKED, RolloutState.CANCELLED)):
        ledger.move(position, state)
    ledger.fail(3, "env_busy")
    assert seen() == (1, 3), "a cancelled rollout is owed, a failed one no more"
    ledger.nothing_runs()
    assert seen() == (0, 3)
