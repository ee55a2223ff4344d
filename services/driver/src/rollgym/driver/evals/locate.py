"""Which run a person means: the results file itself, or the folder that holds one run."""

from __future__ import annotations

from pathlib import Path

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.shards import COMPANIONS

_MANIFEST = "_manifest.json"


def run_at(path: Path) -> ArtifactPaths:
    """The artifacts of the run at `path`. Raises ConfigurationError where there is none, or more than one."""
    if path.is_dir():
        manifests = sorted(path.glob(f"*{_MANIFEST}"))
        if len(manifests) != 1:
            raise ConfigurationError(f"{path} holds {len(manifests)} runs; name the results file of one of them")
        return ArtifactPaths(path / (manifests[0].name.removesuffix(_MANIFEST) + ".jsonl"))
    if not path.is_file():
        raise ConfigurationError(f"there is no results file {path}")
    if path.stem.endswith(COMPANIONS) or path.suffix == ".json":
        raise ConfigurationError(f"{path} is no results file, but the companion of one; name that")
    return ArtifactPaths(path)
