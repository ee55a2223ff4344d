"""The settings of the bundle: its reference manual."""

from __future__ import annotations

from pydantic import AliasChoices, Field, field_validator

from rollgym.common.settings import ServiceSettings, service_config
from rollgym.env_bundle.faults import Fault, parse_fault


class EnvBundleSettings(ServiceSettings):
    """Flags of ``gym-env-bundle serve``, or ``ROLLGYM_ENV_BUNDLE_*`` variables."""

    model_config = service_config("env-bundle")

    port: int = Field(8200, ge=0, le=65535, description="Port to bind; 0 picks a free one, the first line says which")
    max_sessions: int | None = Field(
        None, ge=1, description="Episodes that may run at a time, over all environments; unset: no limit"
    )
    idle_timeout_s: float | None = Field(
        None,
        gt=0,
        validation_alias=AliasChoices("idle_timeout", "idle_timeout_s"),
        description="Seconds without a request after which a session is closed (1001); unset: sessions live as long as "
        "their sockets, which pings watch",
    )
    ping_interval_s: float = Field(
        20.0,
        ge=0,
        validation_alias=AliasChoices("ping_interval", "ping_interval_s"),
        description="Seconds between pings of every socket; 0: no pings, a client that vanished keeps its slot",
    )
    ping_timeout_s: float = Field(
        20.0,
        gt=0,
        validation_alias=AliasChoices("ping_timeout", "ping_timeout_s"),
        description="Seconds that a client has for its pong before its socket is closed (1011)",
    )
    max_frame_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest frame taken (a larger one closes the socket, 1009) or sent (a larger answer is an error)",
    )
    environment: list[str] = Field(
        default_factory=list,
        description="A further environment: module:Class, path/file.py or path/file.py:Class; repeatable",
    )
    default_environment: str = Field("gridsim", description="The environment that the root paths mean")
    admin: bool = Field(False, description="Serve /admin/faults and /admin/stats")
    fault: list[str] = Field(
        default_factory=list, description="A fault in force from the start, KIND[:key=value]...; repeatable"
    )
    fault_seed: int = Field(0, description="Seed of the faults' chances")

    @field_validator("fault")
    @classmethod
    def _faults_can_be_read(cls, given: list[str]) -> list[str]:
        for text in given:
            parse_fault(text)
        return given

    @property
    def faults(self) -> list[Fault]:
        """The faults as they were asked for."""
        return [parse_fault(text) for text in self.fault]
