"""Which environments this process serves, by name, and how a further one is loaded from a module or a file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias

from rollgym.common.errors import ConfigurationError
from rollgym.common.suggestions import did_you_mean
from rollgym.env_bundle.environment import Environment
from rollgym.env_bundle.environments.echo import Echo
from rollgym.env_bundle.environments.gridsim import GridSim
from rollgym.env_bundle.environments.wordle import Wordle

EnvironmentType: TypeAlias = type[Environment[Any]]
BUILT_IN: tuple[EnvironmentType, ...] = (GridSim, Wordle, Echo)
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
TAKEN_PATHS = frozenset({"admin", "docs", "health", "mcp", "metadata", "metrics", "ready", "reset", "schema", "state"})
"""First path segments that mean something else on this server."""


class Registry:
    """The environments by name, and which of them the root paths mean. Immutable once built."""

    def __init__(self, types: Iterable[EnvironmentType], *, default: str) -> None:
        found: dict[str, EnvironmentType] = {}
        for each in types:
            name = _checked_name(each)
            if name in found:
                raise ConfigurationError(f"two environments are called {name!r}", name=name)
            found[name] = each
        if default not in found:
            raise ConfigurationError(
                f"no environment {default!r} to be the default; there are {', '.join(found)}"
                f"{did_you_mean(default, list(found))}",
                name=default,
            )
        self.by_name: Mapping[str, EnvironmentType] = MappingProxyType(found)
        self.default = default

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def find(self, name: str | None) -> EnvironmentType | None:
        """The environment of a name, the default one for None, None for a name that nobody has."""
        return self.by_name.get(self.default if name is None else name)


def load(reference: str) -> EnvironmentType:
    """Load `module:Class`, `path/to/file.py` (one environment in it) or `path/to/file.py:Class`.

    Raises ConfigurationError saying which part of the reference is wrong.
    """
    place, _, class_name = reference.partition(":")
    module = _file(place, reference) if place.endswith(".py") else _module(place, reference)
    own: dict[str, EnvironmentType] = {name: value for name, value in vars(module).items() if _is_environment(value)}
    if class_name:
        if class_name not in own:
            raise ConfigurationError(
                f"{reference}: {place} has no environment class {class_name!r}{did_you_mean(class_name, list(own))}",
                reference=reference,
            )
        return own[class_name]
    defined_here = [value for value in own.values() if value.__module__ == module.__name__]
    if len(defined_here) != 1:
        names = ", ".join(value.__name__ for value in defined_here) or "none"
        raise ConfigurationError(
            f"{reference}: name one class with {place}:Class (found: {names})", reference=reference
        )
    return defined_here[0]


def _module(name: str, reference: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(f"{reference}: cannot import {name}: {error}", reference=reference) from error


def _file(path: str, reference: str) -> ModuleType:
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise ConfigurationError(f"{reference}: no file {path}", reference=reference)
    spec = importlib.util.spec_from_file_location(f"rollgym_environment_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{reference}: {path} is no Python file", reference=reference)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigurationError(
            f"{reference}: {path} fails: {type(error).__name__}: {error}", reference=reference
        ) from error
    return module


def _is_environment(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Environment) and not inspect.isabstract(value)


def _checked_name(each: EnvironmentType) -> str:
    name = getattr(each, "name", None)
    for attribute in ("name", "description", "action_type"):
        if not hasattr(each, attribute):
            raise ConfigurationError(f"environment class {each.__name__} has no {attribute}")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in TAKEN_PATHS:
        raise ConfigurationError(
            f"environment class {each.__name__}: {name!r} is no usable name (lower case letters, digits, - and _)"
        )
    return name
