"""Which runs a person means: the results file itself, the folder that holds one run, or all that a pattern matches."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.shards import COMPANIONS

_MANIFEST = "_manifest.json"
_MOST_NAMED = 3


def run_at(path: Path) -> ArtifactPaths:
    """The artifacts of the run at `path`. Raises ConfigurationError where there is none, or more than one."""
    if path.is_dir():
        runs = _runs(path, "*")
        if len(runs) == 1:
            return ArtifactPaths(runs[0])
        raise ConfigurationError(_several(path, runs) if runs else _none(path))
    if not path.is_file():
        raise ConfigurationError(f"there is no results file {path}")
    if path.stem.endswith(COMPANIONS) or path.suffix == ".json":
        raise ConfigurationError(f"{path} is no results file, but the companion of one; name that")
    return ArtifactPaths(path)


def find_results(patterns: Sequence[str]) -> list[ArtifactPaths]:
    """Results files that match, each once; companion files that match as well are passed over.

    A folder stands for its one run. Raises ConfigurationError for a pattern without a match.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        if Path(pattern).is_dir():
            found[run_at(Path(pattern)).results] = None
            continue
        matches = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))] or [Path(pattern)]
        results = [path for path in matches if path.is_file() and not path.stem.endswith(COMPANIONS)]
        if not results:
            why = "only companions of results files match" if any(map(Path.is_file, matches)) else "no file matches"
            raise ConfigurationError(f"--input {pattern}: {why}", pattern=pattern)
        found |= dict.fromkeys(results)
    return [ArtifactPaths(path) for path in found]


def _runs(folder: Path, pattern: str) -> list[Path]:
    """Results files of the runs whose manifests match, in order."""
    manifests = sorted(folder.glob(pattern + _MANIFEST))
    return [path.with_name(path.name.removesuffix(_MANIFEST) + ".jsonl") for path in manifests]


def _several(folder: Path, runs: Sequence[Path]) -> str:
    return f"{folder} holds {len(runs)} runs; name the results file of one of them: {_named(runs)}"


def _none(folder: Path) -> str:
    alone = [path for path in sorted(folder.glob("*.jsonl")) if not path.stem.endswith(COMPANIONS)]
    if alone:  # rows without a manifest, or a file of another kind: whoever names it knows
        return f"{folder} holds no run's manifest; name the results file itself: {_named(alone)}"
    below = _runs(folder, "*/*")
    return f"there is no results file in {folder}" + (f"; in its folders there are: {_named(below)}" if below else "")


def _named(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths[:_MOST_NAMED])) + (", …" if len(paths) > _MOST_NAMED else "")
