"""What a simulation can be told: one frozen model, from which the command's flags are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from rollgym.common.errors import ConfigurationError
from rollgym.common.validation_messages import validation_message
from rollgym.driver.config import MAX_CONCURRENCY
from rollgym.driver.config_loading import load_config
from rollgym.driver.simulate.latency import FORMS, Latency
from rollgym.driver.simulate.variants import VARIANTS


def _latency(value: Any) -> Latency:
    return value if isinstance(value, Latency) else Latency.parse(str(value))


def _names(value: Any) -> Any:
    return tuple(value.split(",")) if isinstance(value, str) else value


def _known_variants(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in VARIANTS:
            raise ValueError(f"no variant {name!r}: there are {', '.join(VARIANTS)}")
    if len(set(names)) != len(names):
        raise ValueError("each variant once")
    return names


LatencyField = Annotated[Latency, BeforeValidator(_latency)]
VariantNames = Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_known_variants)]


class SimulationSettings(BaseModel):
    """Settings of `gym simulate capacity`; each is a flag of the same name."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    tasks: int = Field(64, ge=1, description="tasks of the input file")
    repeats: int = Field(64, ge=1, description="rollouts of each task")
    concurrency: int = Field(1024, ge=1, le=MAX_CONCURRENCY, description="rollouts in flight")
    messages: int = Field(80, ge=1, description="history messages of every task, result and captured call")
    characters: int = Field(2000, ge=1, description="characters of each message")
    calls: int = Field(2, ge=1, description="captured model calls of a result; each carries the whole history")
    latency: LatencyField = Field(Latency.parse("uniform:0.2:1.0"), description=f"how long an agent takes: {FORMS}")
    rate: float = Field(
        0.0,
        ge=0,
        description="open loop: rollouts that begin each second, whatever the driver does; 0: a closed loop, in which "
        "each begins when it is asked for",
    )
    fail_rate: float = Field(0.0, ge=0, le=1, description="share of attempts that an agent answers with 500")
    attempts: int = Field(3, ge=1, description="attempts that the driver makes at a rollout")
    agents: int = Field(1, ge=1, le=64, description="agent server processes")
    seed: int = Field(0, ge=0, description="seed of latencies, failures and arrivals")
    variants: VariantNames = Field(
        tuple(VARIANTS), min_length=1, description="comma-separated, from " + ", ".join(VARIANTS)
    )
    rounds: int = Field(3, ge=1, description="runs of each variant, the variants in turn")
    retain: bool = Field(False, description="keep every result as objects, as trainers do")
    built_in_rollouts: int = Field(1024, ge=0, description="rollouts of the built-in agent's row; 0: no such row")
    turns: int = Field(10, ge=1, description="model calls of each of them")
    model_latency: LatencyField = Field(Latency.parse("fixed:0"), description=f"how long its model takes: {FORMS}")
    ceiling: bool = Field(False, description="raise the concurrency until throughput stops growing; no variants")
    ceiling_from: int = Field(64, ge=1, le=MAX_CONCURRENCY, description="concurrency that --ceiling starts with")
    timeout_s: float = Field(900.0, gt=0, description="seconds that one run may take")
    out: Path = Field(Path("results/simulate"), description="folder for capacity.json, capacity.svg and artifacts")
    keep: bool = Field(False, description="keep each run's artifacts, about 0.5 MB a rollout")
    check: bool = Field(False, description="exit 1 where a figure misses its mark, not only where counts disagree")
    json_: bool = Field(False, alias="json", description="print the JSON instead of tables")
    overrides: tuple[str, ...] = Field((), description="settings of the driver for every run")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.ceiling and (self.rate or self.retain):
            raise ValueError(
                "--ceiling raises the concurrency of a closed loop: neither --rate nor --retain goes with it"
            )
        if self.rate and self.agents > 1:
            raise ValueError("--rate is kept by one agent process: it goes with --agents 1")
        if self.ceiling_from > self.concurrency and self.ceiling:
            raise ValueError("--ceiling-from is above --concurrency, which --ceiling ends with")
        return self

    @field_validator("out")
    @classmethod
    def _is_a_folder(cls, value: Path) -> Path:
        if value.exists() and not value.is_dir():
            raise ValueError(f"{value} is a file, not a folder")
        return value

    @property
    def rollouts(self) -> int:
        return self.tasks * self.repeats


def parse_simulation(values: dict[str, Any]) -> SimulationSettings:
    """Settings from flags, those of the driver among them. Raises ConfigurationError, one line per problem."""
    try:
        settings = SimulationSettings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_problem(item) for item in error.errors(include_url=False))) from None
    files = {"input_jsonl_fpath": "tasks.jsonl", "output_jsonl_fpath": "rollouts.jsonl"}
    load_config(None, settings.overrides, {}, files)
    return settings


def _problem(item: Any) -> str:
    location: Sequence[Any] = item["loc"]
    message = validation_message(item)
    given = f" (got {item['input']!s:.80})" if item["type"] != "value_error" else ""  # ours name it themselves
    return f"--{str(location[0]).replace('_', '-')}: {message}{given}" if location else message
