"""Whether a tool call's arguments fit the tool's schema: quickly where that is plain, by jsonschema for the verdict.

The quick look only ever says yes. It knows objects of plain fields; whatever it does not know, and every no, goes to
jsonschema, which also words the complaint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, InvalidArguments
from rollgym.common.logs import get_logger

log = get_logger(__name__)

Fits = Callable[[Any], bool]

# Keywords that say nothing about whether a value fits.
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema", "$id", "deprecated", "readOnly"})
_PLAIN_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"}) | _ANNOTATIONS


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Fits] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


class ArgumentCheck:
    """The check of one tool's arguments."""

    __slots__ = ("_fits", "_tool", "_validator")

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self._tool = tool
        self._validator = _validator(tool, schema)
        self._fits = _quick_object(schema)

    def __call__(self, body: bytes) -> bytes:
        """The arguments as the text of a JSON object. Raises BadRequest or InvalidArguments."""
        if not body.strip():
            body = b"{}"
        try:
            arguments = jsonx.loads(body)
        except ValueError as error:
            raise BadRequest(f"the arguments are no JSON: {error}") from error
        if not isinstance(arguments, dict):
            raise BadRequest(f"the arguments must be a JSON object, not {_kind(arguments)}")
        if not self._fits(arguments) and self._validator is not None:
            self._require_valid(arguments)
        return body

    def _require_valid(self, arguments: dict[str, Any]) -> None:
        assert self._validator is not None
        errors = sorted(self._validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
        if errors:
            told = [
                {"where": ".".join(map(str, error.absolute_path)) or "arguments", "message": error.message[:500]}
                for error in errors[:10]
            ]
            summary = "; ".join(f"{item['where']}: {item['message']}" for item in told)
            raise InvalidArguments(f"{self._tool}: {summary}", tool=self._tool, errors=told)


def _validator(tool: str, schema: Mapping[str, Any]) -> Any:
    """jsonschema's validator; None where the schema itself is none: then any object passes, and the log says so."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except SchemaError as error:
        log.warning("a tool's schema is invalid; its arguments are not checked", tool=tool, problem=error.message)
        return None
    return kind(schema)


def _quick_object(schema: Mapping[str, Any]) -> Fits:
    """A quick yes for objects of plain fields, as far as the schema is plain."""
    if not set(schema) <= _PLAIN_OBJECT or schema.get("type", "object") != "object":
        return _unsure
    extra = schema.get("additionalProperties", True)
    if not isinstance(extra, bool):
        return _unsure
    fields = {name: _quick_value(field) for name, field in schema.get("properties", {}).items()}
    required = frozenset(schema.get("required", ()))

    def fits(value: dict[str, Any]) -> bool:
        if not required <= value.keys():
            return False
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                if not extra:
                    return False
            elif not field(item):
                return False
        return True

    return fits


def _quick_value(schema: Any) -> Fits:
    if schema is True:
        return lambda _: True
    if not isinstance(schema, Mapping):
        return _unsure
    keywords = set(schema) - _ANNOTATIONS
    of_type = _TYPES.get(schema.get("type", "")) if isinstance(schema.get("type"), str) else None
    if not keywords:
        return lambda _: True
    if of_type is None:
        return _unsure
    if keywords == {"type"}:
        return of_type
    if schema["type"] in ("integer", "number") and keywords <= {"type", "minimum", "maximum"}:
        return _quick_range(of_type, schema)
    return _unsure


def _quick_range(of_type: Fits, schema: Mapping[str, Any]) -> Fits:
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    return lambda value: of_type(value) and least <= value <= most


def _unsure(_: Any) -> bool:
    return False


def _kind(value: Any) -> str:
    names = {str: "a string", list: "an array", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
