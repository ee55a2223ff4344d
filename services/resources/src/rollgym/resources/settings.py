"""What a resources server can be told: one frozen class, and the reference manual of its flags."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator, model_validator

from rollgym.common.settings import ServiceSettings, service_config
from rollgym.resources.environments import Environment, parse_environment_url
from rollgym.resources.rewards import RewardMode

Seconds = Annotated[float, Field(gt=0)]


def _flag(name: str) -> AliasChoices:
    """A setting's flag without its unit: `patience_s` is `--patience` to a person."""
    return AliasChoices(name.removesuffix("_s"), name)


class ResourcesSettings(ServiceSettings):
    """Settings of `gym-resources serve`; variables are `ROLLGYM_RESOURCES_*`."""

    model_config = service_config("resources")

    port: int = Field(8300, ge=0, le=65535, description="Port to bind; 0 picks a free one, said on the first line")
    env: dict[str, str] = Field(
        default_factory=dict, description="An environment server, name=url; repeatable. A row's `env` chooses by name"
    )
    reward_mode: dict[str, RewardMode] = Field(
        default_factory=dict, description="How an environment's rewards make one, name=sum|last|max; default sum"
    )
    env_session_timeout: dict[str, Seconds] = Field(
        default_factory=dict,
        description="Seconds after which an environment server may reap a quiet session by itself, name=seconds;"
        " a longer gap between finished steps masks the rollout",
    )

    reset_timeout_s: float = Field(
        600.0, gt=0, validation_alias=_flag("reset_timeout_s"), description="Seconds that one reset may take"
    )
    patience_s: float | None = Field(
        None,
        ge=0,
        validation_alias=_flag("patience_s"),
        description="Seconds within which opening a session is tried again while its environment server is busy,"
        " waiting included; default the reset timeout; 0: one attempt",
    )
    connect_timeout_s: float = Field(
        10.0, gt=0, validation_alias=_flag("connect_timeout_s"), description="Seconds that one handshake may take"
    )
    step_timeout_s: float = Field(
        600.0, gt=0, validation_alias=_flag("step_timeout_s"), description="Seconds that one step may take"
    )
    idle_timeout_s: float = Field(
        600.0,
        gt=0,
        validation_alias=_flag("idle_timeout_s"),
        description="Seconds without a call, none in flight, after which a session is reclaimed",
    )
    owner_grace_s: float = Field(
        10.0,
        gt=0,
        validation_alias=_flag("owner_grace_s"),
        description="Seconds after which a client that said it was there, and is not any more, loses its sessions",
    )
    close_timeout_s: float = Field(
        2.0,
        gt=0,
        le=60,
        validation_alias=_flag("close_timeout_s"),
        description="Seconds that an environment server has to answer a close before its socket is dropped",
    )
    close_wait_s: float = Field(
        3.0,
        ge=0,
        validation_alias=_flag("close_wait_s"),
        description="Seconds that a close waits for the calls ahead of it before it cuts them off",
    )

    max_sessions: int | None = Field(
        None, ge=1, description="Sessions that this server holds at most; default: as many as its open files allow"
    )
    max_handshakes: int = Field(128, ge=1, description="Handshakes in progress with one environment server at most")
    max_frame_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="Largest frame taken from an environment")
    remembered_sessions: int = Field(
        100_000, ge=1, description="Ended sessions remembered, so that a late call on one is told what became of it"
    )
    ping_interval_s: float = Field(
        20.0,
        ge=0,
        validation_alias=_flag("ping_interval_s"),
        description="Seconds between WebSocket pings; 0 turns them off",
    )
    ping_timeout_s: float | None = Field(
        None,
        gt=0,
        validation_alias=_flag("ping_timeout_s"),
        description="Seconds without a pong after which a socket counts as dead; default and least: the step timeout,"
        " as a server that steps on its own loop answers no ping meanwhile",
    )

    masked_as_error: bool = Field(False, description="Answer 503 instead of a masked verify, for clients without masks")
    failed_seed: Literal["error", "mask"] = Field(
        "error", description="A seed that failed answers its error, or 200 with only /verify telling (mask)"
    )
    tools_over_mcp: bool = Field(False, description="Serve each session's tools over MCP too, at /mcp")
    signing_key: SecretStr | None = Field(
        None, description="Key that session cookies are signed with, 16 characters or more; default random per process"
    )
    workers: int = Field(1, description="Always 1: sessions live in one process. Run several replicas instead")

    @field_validator("env")
    @classmethod
    def _urls_name_a_server(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            if not name:
                raise ValueError(f"an environment needs a name: name={url}")
            parse_environment_url(url)
        return value

    @field_validator("workers")
    @classmethod
    def _one_process(cls, value: int) -> int:
        if value != 1:
            raise ValueError("a session lives in one process: run one worker, and as many replicas as you like")
        return value

    @field_validator("signing_key")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 16:
            raise ValueError("a signing key has 16 characters or more")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ResourcesSettings:
        for field in ("reward_mode", "env_session_timeout"):
            if unknown := sorted(set(getattr(self, field)) - set(self.env)):
                known = ", ".join(sorted(self.env)) or "none"
                raise ValueError(f"{field} names {', '.join(unknown)}, which no --env gives (given: {known})")
        if self.ping_timeout_s is not None and self.ping_timeout_s < self.step_timeout_s:
            raise ValueError(
                f"ping_timeout {self.ping_timeout_s:g} s is shorter than step_timeout {self.step_timeout_s:g} s:"
                " it would end healthy sessions during a long step"
            )
        return self

    @property
    def patience(self) -> float:
        """Seconds within which a session must be open."""
        return self.reset_timeout_s if self.patience_s is None else self.patience_s

    @property
    def pong_timeout_s(self) -> float:
        return self.step_timeout_s if self.ping_timeout_s is None else self.ping_timeout_s

    def environments(self) -> list[Environment]:
        """The configured environments, in the order given."""
        return [
            Environment(
                name=name,
                base_url=parse_environment_url(url),
                reward_mode=self.reward_mode.get(name, RewardMode.SUM),
                session_timeout_s=self.env_session_timeout.get(name),
            )
            for name, url in self.env.items()
        ]
