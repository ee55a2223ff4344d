"""From files, overrides and flags to one valid `RolloutCollectionConfig`, or to an error that says what to correct.

A configuration is a YAML file with Hydra overrides on top (``key=value``, ``++key=value``, ``~key``): `composition`
makes one of them. Flags of the command are overrides by another name and come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rollgym.common.errors import ConfigurationError
from rollgym.common.suggestions import did_you_mean
from rollgym.common.validation_messages import validation_message
from rollgym.driver.config import RolloutCollectionConfig, ServeSettings
from rollgym.driver.policies.settings import PolicySettings

_SECTIONS: Mapping[str, type[BaseModel]] = {"policy": PolicySettings, "serve": ServeSettings}


def load_config(
    config_file: Path | None,
    overrides: Sequence[str],
    flags: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
) -> RolloutCollectionConfig:
    """Compose file, overrides and flags, then validate. `defaults` fill what none of them says.

    Raises ConfigurationError with one line per problem: the field, the value, what is allowed, a did-you-mean.
    """
    composed = _composed(config_file, overrides)
    for key, value in flags.items():
        _set(composed, key, value)
    for key, value in (defaults or {}).items():
        _set(composed, key, value, only_if_absent=True)
    return validated(composed)


def validated(values: Mapping[str, Any]) -> RolloutCollectionConfig:
    """The configuration that `values` describe. Raises ConfigurationError, one line per problem."""
    try:
        return RolloutCollectionConfig.model_validate(values)
    except ValidationError as error:
        lines = [_problem(item, values) for item in error.errors(include_url=False)]
        raise ConfigurationError(
            "\n".join(dict.fromkeys(lines)), fields=[_where(e["loc"]) for e in error.errors()]
        ) from None


def _composed(config_file: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    if config_file is None and not overrides:
        return {}
    # Imported here: a run by flags alone has nothing to compose, and Hydra is a fifth of all that a run imports.
    from rollgym.driver.composition import compose_settings

    return compose_settings(config_file, overrides, _check_key)


def _check_key(key: str) -> None:
    first, _, rest = key.partition(".")
    if first not in RolloutCollectionConfig.model_fields:
        raise ConfigurationError(f"unknown setting {key!r}{_suggestion(first, RolloutCollectionConfig)}")
    section = _SECTIONS.get(first)
    if section is not None and rest and rest.split(".")[0] not in section.model_fields:
        raise ConfigurationError(f"unknown setting {key!r}{_suggestion(rest, section, prefix=first + '.')}")


def _suggestion(name: str, model: type[BaseModel], prefix: str = "") -> str:
    return did_you_mean(prefix + name, [prefix + field for field in model.model_fields]) or "; see gym eval run --help"


def _set(values: dict[str, Any], dotted: str, value: Any, *, only_if_absent: bool = False) -> None:
    *path, last = dotted.split(".")
    for name in path:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # validation says what is wrong with it
        values = inner
    if not (only_if_absent and last in values):
        values[last] = value


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location if part not in ("int", "dict[str,int]", "function-after"))


def _problem(item: Any, values: Mapping[str, Any]) -> str:
    location: tuple[int | str, ...] = item["loc"]
    where = _where(location)
    if item["type"] == "extra_forbidden":
        parent = (
            _SECTIONS.get(str(location[0]), RolloutCollectionConfig) if len(location) > 1 else RolloutCollectionConfig
        )
        return f"unknown setting {where!r}{_suggestion(str(location[-1]), parent)}"
    if item["type"] == "missing":
        flag = {"input_jsonl_fpath": " (--input FILE)", "output_jsonl_fpath": " (--output FILE)"}.get(where, "")
        return f"{where}: is needed{flag}"
    message = validation_message(item)
    given = _value_at(values, location)
    shown = "" if given is None or any(word in where for word in ("key", "token", "secret")) else f" (got {given!r})"
    return f"{where}: {message}{shown[:200]}" if where else message


def _value_at(values: Any, location: tuple[int | str, ...]) -> Any:
    for part in location:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
    return None if isinstance(values, Mapping) else values
