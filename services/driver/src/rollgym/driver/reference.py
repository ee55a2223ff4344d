"""The settings of a run as text: drawn from the model itself, so that help and validation never differ."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sized
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rollgym.driver.config import RolloutCollectionConfig

WIDTH = 96
_NAME_WIDTH = 30


def settings_reference() -> str:
    """Every setting with its default and description, one block a setting."""
    return "\n".join(_lines(RolloutCollectionConfig, ""))


def _lines(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, info in model.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _lines(section, f"{prefix}{name}.")
            continue
        text = f"{info.description}{_default(info)}"
        wrapped = textwrap.wrap(text, WIDTH - _NAME_WIDTH - 3)
        title = f"  {prefix}{name}"
        if len(title) > _NAME_WIDTH:
            yield title
            title = ""
        for line in wrapped:
            yield f"{title:<{_NAME_WIDTH}} {line}"
            title = ""


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return " (needed)"
    value: Any = info.get_default(call_default_factory=True)
    if value is None or (isinstance(value, Sized) and len(value) == 0):
        return ""
    if isinstance(value, bool):
        return f" (default: {str(value).lower()})"
    return f" (default: {list(value) if isinstance(value, tuple) else value})"
