"""One bundle for all tests that do not need one of their own; each test finds it without faults and sessions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.env_bundle.client import Admin
from processes import RunningCommand, running_sync
from waiting import wait_until

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "environments" / "number_hunt.py"
BROKEN = Path(__file__).with_name("broken_environment.py")


@pytest.fixture(scope="session")
def shared_bundle() -> Iterator[RunningCommand]:
    added = [f"--environment={path}" for path in (EXAMPLE, BROKEN)]
    with running_sync("gym-env-bundle", "serve", "--port", "0", "--admin", *added) as bundle:
        yield bundle
        errors = [line for line in bundle.log().split("\n") if '"level": "error"' in line or "Traceback" in line]
        assert [line for line in errors if "no licence" not in line] == []


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
