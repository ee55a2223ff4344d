"""What the driver's tests share: a folder for one run, and servers that live as long as a module's tests."""

from pathlib import Path

import pytest

from integration.driver.runs import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)
