"""What a setting takes, in the words of who writes it: pydantic's own messages name Python's types."""

from __future__ import annotations

from pydantic_core import ErrorDetails

_LIST = "takes a list, for example [a, b]"
_MAPPING = "takes a mapping of name to value"
_TAKES = {
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
}


def validation_message(item: ErrorDetails) -> str:
    """What is wrong with one value; neither where it is nor what it was."""
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"].startswith("^https?://"):
        return "takes a URL that begins with http:// or https://"
    return _TAKES.get(item["type"]) or item["msg"].removeprefix("Value error, ")
