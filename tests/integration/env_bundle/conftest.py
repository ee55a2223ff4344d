"""One bundle for all tests that do not need one of their own; each test finds it without faults and sessions."""

from collections.abc import Iterator

import pytest

from integration.env_bundle.client import Admin
from processes import RunningCommand, running_sync
from waiting import wait_until


@pytest.fixture(scope="session")
def shared_bundle() -> Iterator[RunningCommand]:
    with running_sync("gym-env-bundle", "serve", "--port", "0", "--admin") as bundle:
        yield bundle


@pytest.fixture
def url(shared_bundle: RunningCommand) -> str:
    return shared_bundle.url


@pytest.fixture
def admin(shared_bundle: RunningCommand) -> Iterator[Admin]:
    """The shared bundle's admin routes. After the test: faults lifted, and no slot held, whatever the test did."""
    found = Admin(shared_bundle.url)
    try:
        yield found
        found.lift_faults()
        wait_until(lambda: found.active() == 0)
    finally:
        found.close()
