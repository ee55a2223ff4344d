"""Request bodies and query values as checked data; whatever is wrong with one is said field by field."""

from __future__ import annotations

import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest

ModelT = TypeVar("ModelT", bound=BaseModel)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")


async def body_as(request: Request, model: type[ModelT]) -> ModelT:
    """The JSON body as `model`. Raises BadRequest naming each wrong field, without repeating its value."""
    raw = await request.body()
    if not raw:
        raise BadRequest("the request has no body; a JSON object was expected")
    try:
        parsed = jsonx.loads(raw)
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise BadRequest(f"the body is a JSON {_json_type(parsed)}; an object was expected")
    try:
        return model.model_validate(_speakable(parsed))
    except ValidationError as error:
        wrong = [
            {"where": ".".join(map(str, item["loc"])), "message": item["msg"], "type": item["type"]}
            for item in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        summary = "; ".join(f"{item['where'] or 'body'}: {item['message']}" for item in wrong[:5])
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise BadRequest(summary + more, errors=wrong[:50]) from error


def path_id(request: Request, name: str) -> str:
    """An id from the path. Raises BadRequest where it is none."""
    value: str = request.path_params[name]
    if not _ID.fullmatch(value):
        rule = "1 to 128 letters, digits or . _ : @ - that begin with a letter or digit"
        raise BadRequest(f"{name} must be {rule}", **{name: value[:200]})
    return value


def query_int(request: Request, name: str, *, default: int, least: int, most: int) -> int:
    """A whole number from the query string, or `default`. Raises BadRequest."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", given) or not least <= int(given) <= most:
        raise BadRequest(f"{name} must be a whole number from {least} to {most}", **{name: given[:50]})
    return int(given)


def _speakable(value: object) -> object:
    """The value with lone surrogates, which no page and no file can hold, replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_speakable(key): _speakable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_speakable(item) for item in value]
    return value


def _json_type(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
