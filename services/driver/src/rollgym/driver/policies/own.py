"""One's own policy by `package.module:Class`: found, checked, and built, or one sentence on what failed."""

import difflib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from rollgym.common.errors import ConfigurationError
from rollgym.driver.policies.protocol import Policy


def load_own_policy(reference: str, options: Mapping[str, Any]) -> Policy:
    """The policy that `reference` names, built with `options`. Raises ConfigurationError saying which step failed."""
    module_name, _, class_name = reference.partition(":")
    target = _find(_import(module_name, reference), class_name, reference)
    try:
        policy = target(**options)
    except TypeError as error:
        raise ConfigurationError(
            f"policy {reference} cannot be built with options {sorted(options)}: {error}"
        ) from error
    if not isinstance(policy, Policy):
        missing = [name for name in ("name", "start", "__aenter__", "__aexit__") if not hasattr(policy, name)]
        raise ConfigurationError(f"policy {reference} is not a Policy: it has no {', '.join(missing)}")
    return policy


def _import(module_name: str, reference: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"policy {reference}: no module named {error.name!r}{_near_module(error.name)}"
                " (is it installed, or its folder on PYTHONPATH?)"
            ) from error
        raise ConfigurationError(f"policy {reference}: module {module_name} fails to import: {error}") from error
    except Exception as error:
        kind = type(error).__name__
        raise ConfigurationError(
            f"policy {reference}: module {module_name} fails to import: {kind}: {error}"
        ) from error


def _near_module(missing: str) -> str:
    parent, _, name = missing.rpartition(".")
    search = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    siblings = [module.name for module in pkgutil.iter_modules(search)] if search or not parent else []
    near = difflib.get_close_matches(name, siblings, n=1)
    if not near:
        return ""
    return f"; did you mean {parent + '.' if parent else ''}{near[0]}?"


def _find(module: ModuleType, class_name: str, reference: str) -> Any:
    target: Any = module
    for part in class_name.split("."):
        if not hasattr(target, part):
            classes = [name for name, value in inspect.getmembers(target, inspect.isclass) if not name.startswith("_")]
            near = difflib.get_close_matches(part, classes, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"policy {reference}: {module.__name__} has no class {part!r}{hint}")
        target = getattr(target, part)
    if not callable(target):
        raise ConfigurationError(f"policy {reference}: {class_name} is no class")
    return target
