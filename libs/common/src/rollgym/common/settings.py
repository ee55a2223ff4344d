"""The settings that every service has, and how they are read: flags over environment variables over defaults."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Literal, NoReturn, TypeVar, cast

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict, SettingsError

from rollgym.common.gc_tuning import GcSettings, GcThresholds
from rollgym.common.suggestions import did_you_mean
from rollgym.common.validation_messages import validation_message


def service_config(service: str) -> SettingsConfigDict:
    """The settings configuration of a service: ``ROLLGYM_<SERVICE>_*`` variables and ``--kebab-case`` flags."""
    return SettingsConfigDict(
        env_prefix=f"ROLLGYM_{service.upper().replace('-', '_')}_",
        env_prefix_target="all",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_avoid_json=True,
        cli_hide_none_type=True,
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        env_ignore_empty=True,
    )


class ServiceSettings(BaseSettings):
    """What every service can be told. A service's own class adds its fields and its port."""

    model_config = service_config("service")

    host: str = Field("127.0.0.1", description="Address to bind; loopback unless told otherwise")
    port: int = Field(0, ge=0, le=65535, description="Port to bind; 0 picks a free one and the first line says which")
    head_url: str | None = Field(
        None,
        pattern=r"^https?://",
        validation_alias=AliasChoices("head", "head_url"),
        description="URL of the head to register with; unset: not registered",
    )
    advertise_host: str | None = Field(
        None, description="Host that others reach this process at; default: the bound one, or the host's name"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged")
    gc_freeze: bool = Field(True, description="Freeze what start-up built out of the garbage collector's sight")
    gc_thresholds: GcThresholds = Field(
        (50_000, 50, 100), description="Garbage collector thresholds, 1 to 3 numbers each 1 or more; null: Python's own"
    )
    stop_timeout_s: float = Field(
        8.0,
        gt=0,
        le=600,
        validation_alias=AliasChoices("stop_timeout", "stop_timeout_s"),
        description="Seconds that a graceful stop may take",
    )
    token: SecretStr | None = Field(None, description="Bearer token asked for on every route but liveness")
    max_body_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="Largest request body taken, bytes")
    exit_with_parent: bool = Field(False, description="Stop when standard input closes: no child outlives its parent")

    @property
    def gc(self) -> GcSettings:
        return GcSettings(freeze=self.gc_freeze, thresholds=self.gc_thresholds)


SettingsT = TypeVar("SettingsT", bound=BaseSettings)


def parse_settings(cls: type[SettingsT], argv: Sequence[str], *, prog: str, description: str) -> SettingsT:
    """Build settings from flags and environment. On a mistake: one line per problem on stderr, exit 2."""
    shown = {"__doc__": description, "__module__": cls.__module__, "model_config": {"cli_prog_name": prog}}
    named = cast(type[SettingsT], type(cls.__name__, (cls,), shown))
    flags = _flags(cls)
    for word in argv:
        name = word.split("=", 1)[0]
        if name.startswith("--") and name not in flags:
            _refuse(prog, f"unknown flag {name}{did_you_mean(name, flags)}")
    try:
        settings: SettingsT = CliApp.run(named, cli_args=list(argv))
    except ValidationError as error:
        _refuse(prog, *problems(error, flag=True))
    except SettingsError as error:
        _refuse(prog, str(error))
    return settings


def _flags(cls: type[BaseSettings]) -> set[str]:
    flags = {"--help"}
    for name, info in cls.model_fields.items():
        alias = info.validation_alias
        names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [name]
        for each in names:
            flags.add("--" + each.replace("_", "-"))
            if info.annotation is bool:
                flags.add("--no-" + each.replace("_", "-"))
    return flags


def problems(error: ValidationError, *, flag: bool = False) -> list[str]:
    """One line per wrong value: where it is, what it was, what is allowed. Secrets' values are left out."""
    lines = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        where = "--" + where.replace("_", "-") if flag else where
        secret = re.search(r"token|key|secret|password", where)
        given = "" if item["type"] == "missing" or secret else f" (got {item['input']!r})"
        lines.append(f"{where or 'settings'}: {validation_message(item)}{given[:200]}")
    return lines


def _refuse(prog: str, *lines: str) -> NoReturn:
    for line in lines:
        print(f"{prog}: {line}", file=sys.stderr)
    print(f"{prog}: see {prog} --help", file=sys.stderr)
    raise SystemExit(2)
