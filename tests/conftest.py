"""What every test gets: its needs checked before it starts, the process state it may touch put back."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

import needs

PYTESTS_OWN = "PYTEST_CURRENT_TEST"

# No test asserts how fast something is: on a busy machine any of a property's examples may take long.
settings.register_profile("rollgym", deadline=None)
settings.load_profile("rollgym")


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs.enforce(item)


@pytest.fixture(autouse=True)
def process_state_restored() -> Iterator[None]:
    """Put back the garbage collector's settings, the signal handlers and the environment."""
    enabled, thresholds, frozen = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    callbacks = list(gc.callbacks)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    environment = {name: value for name, value in os.environ.items() if name != PYTESTS_OWN}
    yield
    for name in set(os.environ) - set(environment) - {PYTESTS_OWN}:
        del os.environ[name]
    os.environ.update(environment)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    gc.callbacks[:] = callbacks
    if gc.get_freeze_count() > frozen:
        gc.unfreeze()
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()
