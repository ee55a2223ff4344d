"""From files, overrides and flags to one valid `RolloutCollectionConfig`, or to an error that says what to correct.

A configuration is a YAML file with Hydra overrides on top (``key=value``, ``++key=value``, ``~key``), composed by
hydra-core. Flags of the command are overrides by another name and come last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from rollgym.common.errors import ConfigurationError
from rollgym.common.settings import did_you_mean
from rollgym.driver.config import RolloutCollectionConfig, ServeSettings
from rollgym.driver.policies.settings import PolicySettings

_OVERRIDE_KEY = re.compile(r"^(?P<mode>\+\+|\+|~)?(?P<key>[\w./@-]+)(=|$)")
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
    composed = _compose(config_file, overrides)
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


def _compose(config_file: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    words = [_forgiving(word, config_file) for word in overrides]
    if config_file is not None:
        _check_file(config_file)
        folder, name = config_file.resolve().parent, config_file.name
    else:
        ConfigStore.instance().store(name="rollgym_eval_run", node={})
        folder, name = Path(__file__).parent, "rollgym_eval_run"
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base=None, config_dir=str(folder)):
            container = OmegaConf.to_container(compose(config_name=name, overrides=words), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigurationError(_hydra_message(error)) from error
    finally:
        GlobalHydra.instance().clear()
    if not isinstance(container, dict):
        raise ConfigurationError(f"{config_file}: must be a mapping of settings, not a {type(container).__name__}")
    return {str(key): value for key, value in container.items()}


def _check_file(config_file: Path) -> None:
    try:
        content = yaml.safe_load(config_file.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {config_file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {config_file} is no YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigurationError(f"{config_file}: must be a mapping of settings, not a {type(content).__name__}")


def _forgiving(word: str, config_file: Path | None) -> str:
    """Let ``key=value`` set a known field that the file does not mention, as ``++key=value`` does.

    A name that is a config group beside the file keeps Hydra's own meaning; an unknown name is refused here, so that
    a typing error is met with a suggestion.
    """
    found = _OVERRIDE_KEY.match(word)
    if found is None:
        raise ConfigurationError(f"{word!r} is no override: write key=value, ++key=value or ~key")
    key = found["key"]
    if found["mode"] != "~" and "=" not in word:
        raise ConfigurationError(f"{word!r} has no value: write {word}=VALUE")
    is_group = config_file is not None and (config_file.resolve().parent / key.split("@")[0]).is_dir()
    if is_group or found["mode"] == "~":
        return word
    _check_key(key)
    return f"++{word}" if found["mode"] is None else word


def _check_key(key: str) -> None:
    first, _, rest = key.partition(".")
    if first not in RolloutCollectionConfig.model_fields:
        raise ConfigurationError(f"unknown setting {key!r}{_suggestion(first, RolloutCollectionConfig)}")
    section = _SECTIONS.get(first)
    if section is not None and rest and rest.split(".")[0] not in section.model_fields:
        raise ConfigurationError(f"unknown setting {key!r}{_suggestion(rest, section, prefix=first + '.')}")


def _suggestion(name: str, model: type[BaseModel], prefix: str = "") -> str:
    return did_you_mean(prefix + name, [prefix + field for field in model.model_fields]) or "; see gym eval run --help"


def _hydra_message(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "the configuration cannot be composed: " + " ".join(lines)[:500]


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
    message = item["msg"].removeprefix("Value error, ")
    given = _value_at(values, location)
    shown = "" if given is None or any(word in where for word in ("key", "token", "secret")) else f" (got {given!r})"
    return f"{where}: {message}{shown[:200]}" if where else message


def _value_at(values: Any, location: tuple[int | str, ...]) -> Any:
    for part in location:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
    return None if isinstance(values, Mapping) else values
