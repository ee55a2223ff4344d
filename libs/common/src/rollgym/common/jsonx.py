"""JSON at our boundaries: strict both ways, bytes in and bytes out.

NaN and the infinities are no JSON: they are refused on reading and never written. Lone surrogates are legal in
JSON as escapes, and stay escapes.
"""

import json
import math
from typing import Any, NoReturn

import msgspec

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def loads(data: bytes | str) -> Any:
    """Parse one JSON document. Raises ValueError saying what is wrong and where."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _loads_slowly(data)


def _loads_slowly(data: bytes | str) -> Any:
    """The standard library's reading: takes lone surrogates, and says where a document breaks."""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes | bytearray | memoryview) else data
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {error.start} ({error.reason})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} (character {error.pos})") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number out of range: {text[:40]}")
    return value


def dumps(value: Any) -> bytes:
    """Write compact JSON. Raises ValueError for NaN, infinities and values that are no JSON.

    Lone surrogates, which no UTF-8 text can hold, are written as their escapes.
    """
    try:
        encoded = _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if b"null" in encoded and _holds_non_finite(value):
        raise ValueError("NaN and Infinity are no JSON")
    return encoded


def _holds_non_finite(value: Any) -> bool:
    """Whether `value` holds a float that JSON has no word for (msgspec writes those as null)."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(_holds_non_finite(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds_non_finite(item) for item in value)
    return False
