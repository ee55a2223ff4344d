"""What every test gets: its needs checked before it starts, the process state it may touch put back."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import NodeManager

import needs

PYTESTS_OWN = "PYTEST_CURRENT_TEST"
COMPOSE = "tests/compose/"

# No test asserts how fast something is: on a busy machine any of a property's examples may take long.
settings.register_profile("rollgym", deadline=None)
settings.load_profile("rollgym")


# Interrupted, a worker takes its containers down, which may take longer than the 10 s that it would be given.
NodeManager.EXIT_TIMEOUT = 20


class FilesAndOneStack(LoadFileScheduling):
    """Whole files to each worker, and all files about the containers to one: they share the images and a stack."""

    def _split_scope(self, nodeid: str) -> str:
        return COMPOSE if nodeid.startswith(COMPOSE) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesAndOneStack:
    return FilesAndOneStack(config, log)


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
