"""Where the files of a run are: all beside the results file, under its stem."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rollgym.common.errors import ConfigurationError


@dataclass(frozen=True)
class ArtifactPaths:
    """Paths of one run's artifacts; the names are those that NeMo Gym's tools read.

    Raises ConfigurationError for a path that names no file: ``.`` or ``/``.
    """

    results: Path

    def __post_init__(self) -> None:
        if not self.results.name:
            raise ConfigurationError(f"{self.results} is a folder; name a file in it, such as rollouts.jsonl")

    def _beside(self, suffix: str) -> Path:
        return self.results.with_name(self.results.stem + suffix)

    @property
    def failures(self) -> Path:
        return self._beside("_failures.jsonl")

    @property
    def materialized_inputs(self) -> Path:
        return self._beside("_materialized_inputs.jsonl")

    @property
    def journal(self) -> Path:
        return self._beside("_journal.jsonl")

    @property
    def samples(self) -> Path:
        return self._beside("_samples.jsonl")

    @property
    def manifest(self) -> Path:
        return self._beside("_manifest.json")

    @property
    def aggregate_metrics(self) -> Path:
        return self._beside("_aggregate_metrics.json")

    @property
    def lock(self) -> Path:
        return self._beside(".lock")

    @property
    def logs(self) -> Path:
        return self._beside("_logs")

    def all_files(self) -> list[Path]:
        """Every file of a run but the lock, in the order a person would look at them."""
        return [
            self.results,
            self.failures,
            self.materialized_inputs,
            self.journal,
            self.samples,
            self.manifest,
            self.aggregate_metrics,
        ]

    def leftovers(self) -> list[Path]:
        """What repairs of an earlier run set aside: torn ends and bad lines."""
        return [
            path.with_name(path.name + suffix)
            for path in (self.results, self.failures, self.journal)
            for suffix in (".torn", ".bad")
        ]

    def refuse_own(self, task_file: Path) -> None:
        """Raise ConfigurationError where the task file is one of the files that this run writes."""
        for path in (*self.all_files(), self.lock):
            if path.resolve() == task_file.resolve():
                raise ConfigurationError(
                    f"output_jsonl_fpath: {self.results} would overwrite the task file {task_file}: choose another",
                    path=str(path),
                )

    def check_writable(self) -> None:
        """Make the folder; raise ConfigurationError where the results cannot be written there."""
        path = self.results
        if path == self.lock:
            raise ConfigurationError(f"output_jsonl_fpath: {path} is the name of a lock; name it otherwise")
        if path.is_dir():
            raise ConfigurationError(
                f"output_jsonl_fpath: {path} is a folder; name a file in it, such as rollouts.jsonl"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Only trying tells: root, read-only mounts and access lists all differ from what the mode bits say.
            tempfile.TemporaryFile(dir=path.parent).close()
            if path.exists():
                os.close(os.open(path, os.O_RDWR))
        except OSError as error:
            in_the_way = next((parent for parent in path.parents if parent.is_file()), None)
            why = f"{in_the_way} is a file, not a folder" if in_the_way else error.strerror or error
            raise ConfigurationError(f"output_jsonl_fpath: cannot write {path}: {why}", path=str(path)) from error
