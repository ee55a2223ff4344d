"""A file of settings with Hydra's overrides on top, composed by hydra-core into plain data; nothing is validated here.

Importing Hydra takes longer than a small run's first rollout: only a run that has something to compose imports this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rollgym.common.errors import ConfigurationError

ENV_RESOLVER = "rollgym.env"
"""``${rollgym.env:NAME,DEFAULT}`` is ``oc.env`` that takes an empty variable, as a line ``NAME=`` of .env makes it, for
one that is not set."""

_OVERRIDE_KEY = re.compile(r"^(?P<mode>\+\+|\+|~)?(?P<key>[\w./@-]+)(=|$)")


def compose_settings(
    config_file: Path | None, overrides: Sequence[str], check_key: Callable[[str], None]
) -> dict[str, Any]:
    """The file's settings with `overrides` on them.

    Raises ConfigurationError where they cannot be composed. `check_key` is called with every key that is set and
    raises it for one that is unknown.
    """
    words = [_forgiving(word, config_file, check_key) for word in overrides]
    if config_file is not None:
        _check_file(config_file)
        folder, name = config_file.resolve().parent, config_file.name
    else:
        ConfigStore.instance().store(name="rollgym_eval_run", node={})
        folder, name = Path(__file__).parent, "rollgym_eval_run"
    OmegaConf.register_new_resolver(ENV_RESOLVER, _env, replace=True)
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


def _env(name: str, default: Any) -> str | None:
    return os.environ.get(name) or (None if default is None else str(default))


def _check_file(config_file: Path) -> None:
    try:
        content = yaml.safe_load(config_file.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {config_file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {config_file} is no YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigurationError(f"{config_file}: must be a mapping of settings, not a {type(content).__name__}")


def _forgiving(word: str, config_file: Path | None, check_key: Callable[[str], None]) -> str:
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
    check_key(key)
    return f"++{word}" if found["mode"] is None else word


def _hydra_message(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "the configuration cannot be composed: " + " ".join(lines)[:500]
