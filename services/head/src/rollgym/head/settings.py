"""What a head can be told; the fields' descriptions are its reference manual."""

from pathlib import Path

from pydantic import AliasChoices, Field

from rollgym.common.errors import ConfigurationError
from rollgym.common.settings import ServiceSettings, service_config

IN_MEMORY = ":memory:"


class HeadSettings(ServiceSettings):
    """Settings of `gym-head serve`: ``ROLLGYM_HEAD_*`` variables, and flags that override them."""

    model_config = service_config("head")

    port: int = Field(11000, ge=0, le=65535, description="Port to bind; 0 picks a free one, told on the first line")
    database: str | None = Field(
        None,
        min_length=1,
        description="SQLite file of the run history, or :memory:; default: ~/.local/state/rollgym/head.sqlite3",
    )
    keep_runs: int = Field(1000, ge=1, le=100_000, description="Runs kept; the longest untouched go first")
    metrics_runs: int = Field(20, ge=0, le=100, description="Most recent runs whose last values /metrics exposes")
    probe_interval_s: float = Field(
        2.0,
        gt=0,
        le=60,
        validation_alias=AliasChoices("probe_interval", "probe_interval_s"),
        description="Seconds between looks at whether each server's port still takes connections",
    )
    silence_limit_s: float = Field(
        600.0,
        gt=0,
        validation_alias=AliasChoices("silence_limit", "silence_limit_s"),
        description="Seconds without a heartbeat after which a server counts as gone although nothing refused",
    )
    gone_kept_s: float = Field(
        120.0,
        ge=0,
        validation_alias=AliasChoices("gone_kept", "gone_kept_s"),
        description="Seconds that a server that is gone stays listed as such",
    )

    def database_path(self) -> str:
        """The SQLite file of the run history, or `:memory:`.

        Raises ConfigurationError where none was named and this user has no home to keep one in.
        """
        if self.database is not None:
            return self.database
        try:
            return str(Path.home() / ".local" / "state" / "rollgym" / "head.sqlite3")
        except RuntimeError as error:
            raise ConfigurationError(
                f"no home for the run history ({error}); name a file with --database, or --database {IN_MEMORY}"
            ) from error
