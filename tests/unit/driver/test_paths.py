"""Where a run's results may go, and what is said of where they cannot."""

from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths


@pytest.mark.parametrize("below", ["rollouts.jsonl", "deeper/rollouts.jsonl"])
def test_a_file_where_a_folder_belongs_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "README.md"
    file.write_text("text")
    with pytest.raises(ConfigurationError) as refused:
        ArtifactPaths(file / below).check_writable()
    assert refused.value.message.endswith(f"cannot write {file / below}: {file} is a file, not a folder")
    assert file.read_text() == "text"


def test_a_folder_that_is_not_there_yet_is_made(tmp_path: Path) -> None:
    ArtifactPaths(tmp_path / "a" / "b" / "rollouts.jsonl").check_writable()
    assert (tmp_path / "a" / "b").is_dir()
