"""What the driver's tests share: a folder for one run, and servers that live as long as the session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.driver.runs import RunFolder
from integration.driver.servers import Stack, running_stack


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Head, env-bundle and resources; a test leaves no episode open."""
    with running_stack("--patience", "2") as stack:
        yield stack
