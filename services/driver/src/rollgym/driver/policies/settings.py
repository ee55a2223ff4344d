"""Settings of a policy: which one plays, and how it reaches its model."""

import difflib
import re
from typing import Any, Literal

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from rollgym.driver.settings_model import SettingsModel

KINDS = ("scripted", "openai-responses", "openai-chat")
_OWN_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class PolicySettings(SettingsModel):
    """What decides an agent's moves. Everything that only shapes the model's answer (temperature, output limits …)
    belongs to the task row's `responses_create_params`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kind: str = Field(
        "scripted",
        description="scripted, openai-responses, openai-chat, or one's own class as package.module:Class",
    )
    model: str | None = Field(None, min_length=1, description="model name; wins over the row's own")
    base_url: str | None = Field(
        None, description="base URL of an OpenAI-compatible endpoint, for example http://127.0.0.1:8000/v1"
    )
    api_key: SecretStr | None = Field(None, description="sent as a bearer token; none is sent where unset")
    skill: Literal["novice", "competent", "expert"] | None = Field(
        None, description="how well the scripted policy plays; wins over the row's scripted.skill"
    )
    stream: bool = Field(False, description="stream answers, which also measures the time to the first token")
    request_timeout_s: float = Field(
        600, gt=0, le=86_400, description="seconds one model request may take; none is repeated after that"
    )
    max_retries: int = Field(
        5, ge=0, le=100, description="repeats of one model call after 408, 409, 429, 5xx or a failed connection"
    )
    backoff_s: float = Field(0.5, gt=0, le=3_600, description="seconds before the first repeat; doubles each time")
    max_backoff_s: float = Field(30, gt=0, le=3_600, description="seconds that the doubling stops at, before jitter")
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        "max_completion_tokens", description="openai-chat: the name its server knows for max_output_tokens"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of one's own policy class")

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind in KINDS or _OWN_CLASS.fullmatch(kind):
            return kind
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown policy {kind!r}: use {', '.join(KINDS)}, or package.module:Class{hint}")

    @field_validator("api_key")
    @classmethod
    def _sendable_key(cls, key: SecretStr | None) -> SecretStr | None:
        """A key as a header can carry it; an empty one is none."""
        text = key.get_secret_value().strip() if key is not None else ""
        if not text:
            return None
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise ValueError("must be printable ASCII without spaces")
        return SecretStr(text)

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not re.match(r"https?://[^/\s]+", url):
            raise ValueError("must be an http:// or https:// URL, for example http://127.0.0.1:8000/v1")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _whole(self) -> "PolicySettings":
        if self.kind in ("openai-responses", "openai-chat") and self.base_url is None:
            raise ValueError(f"policy {self.kind} needs base_url, for example http://127.0.0.1:8000/v1")
        if self.options and self.kind in KINDS:
            raise ValueError(f"options are for one's own policy class; {self.kind} takes none")
        if self.max_backoff_s < self.backoff_s:
            raise ValueError("max_backoff_s must be at least backoff_s")
        return self

    @property
    def endpoint(self) -> str:
        """The base URL to send to. An API key is the credential where there is one: those in the URL are left out."""
        url = self.base_url or ""
        return url if self.api_key is None else re.sub(r"^(https?://)[^/]*@", r"\1", url)
