"""The manifest: which run the artifacts belong to, what it owes, how far it came, how it ended."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollgym.common import jsonx
from rollgym.common.errors import ArtifactError, ConfigurationError
from rollgym.driver.config import RolloutCollectionConfig

SCHEMA_VERSION = 1

RunState = Literal["running", "finished", "incomplete", "interrupted", "failed"]


class RolloutCounts(BaseModel):
    """Every owed rollout, counted once: the states sum to `owed`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    succeeded: int = Field(0, ge=0, description="In the results with a reward that is a measurement")
    masked: int = Field(0, ge=0, description="In the results, but the infrastructure spoiled the reward")
    failed: int = Field(0, ge=0, description="Out of attempts, or failed for good")
    drained: int = Field(0, ge=0, description="Not started: no time was left; a resume owes them")
    cancelled: int = Field(0, ge=0, description="Started and stopped by an interruption; a resume owes them")
    missing: int = Field(0, ge=0, description="Not reached yet; a resume owes them")

    @property
    def owed(self) -> int:
        return self.succeeded + self.masked + self.failed + self.drained + self.cancelled + self.missing


class Manifest(BaseModel):
    """`<stem>_manifest.json`. Times are seconds since the epoch."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    run_id: str
    state: RunState = "running"
    started_at: float
    resumed_at: list[float] = Field(default_factory=list)
    ended_at: float | None = None
    input_file: str
    input_digest: str = Field(description="SHA-256 of the task file's bytes")
    settings_digest: str = Field(description="SHA-256 of `settings`")
    settings: dict[str, Any] = Field(description="The settings that change results")
    owed: int = Field(ge=0)
    materialized_bytes: int = Field(0, ge=0, description="Size of the materialized inputs, to see that they are whole")
    counts: RolloutCounts = Field(default_factory=RolloutCounts)
    exit_code: int | None = None
    note: str | None = Field(None, description="Why it ended as it did, where that needs a word")

    def write(self, path: Path) -> None:
        """Replace the file in one step: a reader sees the old one or the new one."""
        scratch = path.with_name(path.name + ".writing")
        try:
            with scratch.open("wb") as file:
                file.write(self.model_dump_json(indent=2).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        except OSError as error:
            raise ArtifactError(f"cannot write {path}: {error.strerror}", path=str(path)) from error

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Raises ConfigurationError where there is none, or none that this version can go on from."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"nothing to resume: cannot read {path} ({error.strerror})") from error
        try:
            version = jsonx.loads(content).get("schema_version")
            if version != SCHEMA_VERSION:
                raise ConfigurationError(
                    f"{path} has schema version {version}; this version of gym reads {SCHEMA_VERSION}"
                )
            return cls.model_validate_json(content)
        except (ValueError, AttributeError, ValidationError) as error:
            raise ConfigurationError(f"{path} is no manifest of a run: {str(error)[:300]}") from error

    def refuse_other_run(self, config: RolloutCollectionConfig, input_digest: str | None) -> None:
        """Raise ConfigurationError, saying what differs, unless `config` describes this very run."""
        wanted = config.result_settings()
        differing = [
            f"{name}: was {self.settings.get(name)!r}, now {wanted.get(name)!r}"
            for name in sorted(self.settings.keys() | wanted.keys())
            if self.settings.get(name) != wanted.get(name)
        ]
        if input_digest is not None and input_digest != self.input_digest:
            differing.insert(0, f"the content of the task file {config.input_jsonl_fpath} has changed")
        if differing:
            raise ConfigurationError(
                "cannot resume, this is another run: " + "; ".join(differing) + ". Use the old settings, another "
                "output_jsonl_fpath, or --overwrite to start anew"
            )


def digest_of(settings: dict[str, Any]) -> str:
    return hashlib.sha256(jsonx.dumps(dict(sorted(settings.items())))).hexdigest()
