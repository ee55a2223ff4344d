"""Everything a collection can be told: one frozen model, the reference manual of its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from rollgym.common.gc_tuning import GcSettings, GcThresholds
from rollgym.common.redaction import redact
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.settings_model import SettingsModel

DEFAULT_HEAD_URL = "http://127.0.0.1:11000"
MAX_CONCURRENCY = 4096
RESIDENT_MARGIN = 16


class ServeSettings(SettingsModel):
    """What `gym eval run` without --no-serve starts, as child processes on free ports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env_bundle: bool = Field(True, description="Start env-bundle and play its environments")
    envs: dict[str, str] = Field(
        default_factory=dict, description="Further environments: name to URL of an OpenEnv server"
    )
    env_bundle_args: list[str] = Field(default_factory=list, description="More flags of gym-env-bundle serve")
    resources_args: list[str] = Field(default_factory=list, description="More flags of gym-resources serve")
    start_timeout_s: float = Field(60.0, gt=0, description="Seconds for the servers to become ready")

    @field_validator("env_bundle_args", "resources_args", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        """Numbers among the flags, as ``[--patience,5]`` has them, are words like the rest."""
        if not isinstance(value, list):
            return value
        return [str(word) if isinstance(word, int | float) and not isinstance(word, bool) else word for word in value]

    @model_validator(mode="after")
    def _serves_something(self) -> Self:
        if not self.env_bundle and not self.envs:
            raise ValueError("serve needs env_bundle or at least one of envs")
        return self


class RolloutCollectionConfig(SettingsModel):
    """Settings of one run. Names are those that NeMo Gym's users know; times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    input_jsonl_fpath: Path = Field(description="Task file: one JSON object a line")
    output_jsonl_fpath: Path = Field(description="Results file; its companions are written beside it")
    limit: int | None = Field(None, ge=0, description="Use only the first N task lines; 0 means none; null means all")
    num_repeats: int | dict[str, int] = Field(
        1, description="Rollouts of each task, 1 or more; or a mapping of agent name to number, with _default"
    )
    interleave_repeats: bool = Field(False, description="Order abcabc instead of aabbcc")
    num_repeats_add_seed: bool = Field(
        False, description="Give each repeat its own sampling seed, in responses_create_params.metadata.extra_body"
    )
    num_samples_in_parallel: int = Field(64, ge=1, le=MAX_CONCURRENCY, description="Rollouts in flight at once")
    max_resident_rollout_tasks: int | None = Field(
        None, ge=1, description="Most asyncio tasks that hold a rollout; default: num_samples_in_parallel + 16"
    )
    retain_results_in_memory: bool = Field(
        False, description="Keep every result as an object and return it; the command has no use for it"
    )
    resume_from_cache: bool = Field(False, description="Go on with the run whose artifacts are there")
    overwrite: bool = Field(False, description="Replace the artifacts of an earlier run at the same place")
    retry_failed: bool = Field(False, description="On resume, give finally failed rollouts a new set of attempts")
    repair: bool = Field(
        False, description="On resume, set bad lines of the results aside (<file>.bad) and run those rollouts again"
    )
    max_rollout_attempts: int = Field(3, ge=1, le=100, description="Attempts of one rollout before it counts as failed")
    retry_backoff_s: float = Field(
        0.5, ge=0, le=600, description="Least wait before a second attempt; doubles with each, up to 30 s"
    )
    rollout_timeout_s: float | None = Field(
        3600.0, gt=0, description="Seconds for one attempt, from dispatch over seed, turns and verify; null: unbounded"
    )
    dispatch_budget_s: float | None = Field(
        None, ge=0, description="Seconds from the start of collection in which rollouts may be started; 0 is spent"
    )
    drain_margin_s: float | None = Field(
        None, ge=0, description="A rollout starts only with this much budget left; default: this run's p75 latency"
    )
    drain_on_sigterm: bool = Field(False, description="On SIGTERM start nothing more, but let what runs finish")
    dispatch_longest_first: bool = Field(
        False, description="On resume, start the rollouts first whose failed attempts ran longest"
    )
    require_complete: bool = Field(False, description="Exit 1 instead of 3 where a rollout failed or is missing")
    observability_enabled: bool = Field(True, description="Record trajectories and attach ng_perf")
    capture_payloads: bool | None = Field(
        None,
        description="Model requests and responses in trajectories: null: the built-in agent records none and an agent "
        "server's are kept; true: both; false: neither",
    )
    disable_aggregation: bool = Field(False, description="Do not write <stem>_aggregate_metrics.json")
    count_missing_rollouts_as_zero: bool = Field(
        False, description="In the aggregate, count rollouts without a row and without a recorded failure as reward 0"
    )
    count_failure_classes_as_zero: tuple[str, ...] = Field(
        (), description="In the aggregate, count rollouts that failed with one of these classes as reward 0"
    )
    driver_gc_freeze: bool = Field(True, description="Collect and freeze once before collection starts")
    driver_gc_thresholds: GcThresholds = Field(
        (50_000, 50, 100), description="gc.set_threshold's numbers: 1 to 3, each 1 or more; null keeps Python's"
    )
    agent_name: str | None = Field(None, min_length=1, description="Agent server for rows that name none")
    env: str | None = Field(None, min_length=1, description="Environment for rows that name none")
    responses_create_params: dict[str, Any] = Field(
        default_factory=dict, description="Fields that override every row's responses_create_params"
    )
    policy: PolicySettings = Field(default_factory=PolicySettings, description="Who plays the built-in agent")
    max_steps: int | None = Field(100, ge=1, description="Model calls of one rollout of the built-in agent")
    head_url: str = Field(DEFAULT_HEAD_URL, pattern=r"^https?://[^/\s]+", description="The head of --no-serve")
    servers_wait_s: float = Field(
        10.0, ge=0, le=3600, description="Seconds that --no-serve waits for a head and a resources server to be there"
    )
    token: SecretStr | None = Field(
        None, description="Bearer token of head and resources with --no-serve, where they ask for one"
    )
    metrics_host: str = Field("127.0.0.1", description="Address of the driver's /metrics")
    metrics_port: int | None = Field(
        9464, ge=0, le=65535, description="Port of the driver's /metrics; 0 picks a free one; null: none"
    )
    advertise_host: str | None = Field(None, description="Host that Prometheus reaches this driver at")
    progress_interval_s: float = Field(10.0, ge=1, description="Seconds between progress lines without a terminal")
    serve: ServeSettings = Field(default_factory=ServeSettings, description="Servers of an embedded run")

    @field_validator("num_repeats")
    @classmethod
    def _repeats_are_positive(cls, value: int | dict[str, int]) -> int | dict[str, int]:
        for name, repeats in {"": value}.items() if isinstance(value, int) else value.items():
            if repeats < 1:
                where = f" for {name}" if name else ""
                raise ValueError(f"must be 1 or more{where}; use limit=0 to run nothing")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.resume_from_cache and self.overwrite:
            raise ValueError("resume_from_cache and overwrite exclude each other")
        if self.retry_failed and not self.resume_from_cache:
            raise ValueError("retry_failed goes with resume_from_cache")
        if self.repair and not self.resume_from_cache:
            raise ValueError("repair goes with resume_from_cache")
        if self.input_jsonl_fpath == self.output_jsonl_fpath:
            raise ValueError("output_jsonl_fpath must not be the task file itself")
        return self

    @property
    def gc(self) -> GcSettings:
        return GcSettings(freeze=self.driver_gc_freeze, thresholds=self.driver_gc_thresholds)

    @property
    def workers(self) -> int:
        """How many rollouts are in flight at most: concurrency, bounded by the resident tasks."""
        resident = self.max_resident_rollout_tasks or self.num_samples_in_parallel + RESIDENT_MARGIN
        return min(self.num_samples_in_parallel, resident)

    def result_settings(self) -> dict[str, Any]:
        """The settings that change results: what the manifest's digest covers. Secrets are shown as ``***``."""
        policy = self.policy.model_dump(mode="json", include={"kind", "model", "base_url", "skill", "options"})
        own = self.model_dump(
            mode="json",
            include={
                "limit",
                "num_repeats",
                "interleave_repeats",
                "num_repeats_add_seed",
                "agent_name",
                "env",
                "responses_create_params",
                "max_steps",
            },
        )
        settings: dict[str, Any] = redact({**own, "policy": policy})
        return settings
