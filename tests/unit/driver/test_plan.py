"""Whether a run may begin where an earlier one has left its artifacts, and what a person is told where it may not."""

from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.plan import check_output, survey_of
from unit.driver.configs import config


def check(folder: Path, **settings: Any) -> None:
    chosen = config(folder, **settings)
    check_output(chosen, survey_of(chosen))


@pytest.fixture
def earlier(tmp_path: Path) -> ArtifactPaths:
    """Where an earlier run may have left something."""
    (tmp_path / "tasks.jsonl").write_text('{"responses_create_params": {"input": "play"}}\n')
    (tmp_path / "out").mkdir()
    return ArtifactPaths(tmp_path / "out" / "rollouts.jsonl")


@pytest.mark.parametrize("resume", [False, True])
def test_what_cannot_be_resumed_is_not_advised_to_be(tmp_path: Path, earlier: ArtifactPaths, resume: bool) -> None:
    earlier.failures.write_text("{}\n")
    with pytest.raises(ConfigurationError) as refused:
        check(tmp_path, resume_from_cache=resume)
    said = refused.value.message
    assert "rollouts_failures.jsonl" in said
    assert "no manifest and cannot be resumed; --overwrite replaces it, another --output" in said
    assert "--resume" not in said


def test_a_run_with_its_manifest_can_be_gone_on_with(tmp_path: Path, earlier: ArtifactPaths) -> None:
    earlier.manifest.write_text("{}")
    with pytest.raises(ConfigurationError, match="--resume goes on with it; --overwrite replaces it"):
        check(tmp_path)


def test_overwrite_replaces_what_has_no_manifest(tmp_path: Path, earlier: ArtifactPaths) -> None:
    earlier.failures.write_text("{}\n")
    check(tmp_path, overwrite=True)
