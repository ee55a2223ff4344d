"""What all models of settings have in common."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationInfo, field_validator

_NUMBERS = frozenset({int, float})


class SettingsModel(BaseModel):
    """Numbers are numbers here: pydantic itself takes true for 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and info.field_name is not None:
            annotation = cls.model_fields[info.field_name].annotation
            kinds = {annotation, *get_args(annotation)}
            if kinds & _NUMBERS and bool not in kinds:
                raise ValueError(f"takes a number, not {str(value).lower()}")
        return value
