"""JSON objects whose values stay encoded: read and put together without building what is inside.

Lone surrogates, which JSON may hold as escapes, pass through unharmed.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from rollgym.common.surrogates import decode_masking, unmask_lone_surrogates

T = TypeVar("T")
Fields = dict[str, msgspec.Raw]

_fields_decoder = msgspec.json.Decoder(Fields)


def fields_of(text: bytes | msgspec.Raw) -> Fields:
    """The fields of a JSON object, each still encoded (a view of `text`, no copy).

    Raises ValueError where `text` is no JSON object.
    """
    fields, decoded = _decoded(text, _fields_decoder)
    if decoded is text:
        return fields
    return {name: msgspec.Raw(raw_bytes(value)) for name, value in fields.items()}


def struct_of(text: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """`text` as the decoder's struct. Take its Raw fields through `raw_bytes`. Raises ValueError."""
    return _decoded(text, decoder)[0]


def raw_bytes(raw: msgspec.Raw) -> bytes:
    """A value as the JSON that it was."""
    return unmask_lone_surrogates(bytes(raw))


def object_of(fields: Mapping[str, msgspec.Raw]) -> bytes:
    """The JSON object with these fields."""
    return msgspec.json.encode(fields)


def _decoded(text: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[T]") -> tuple[T, bytes | msgspec.Raw]:
    try:
        if isinstance(text, bytes):
            return decode_masking(text, decoder)
        try:
            return decoder.decode(text), text
        except msgspec.DecodeError:
            return decode_masking(bytes(text), decoder)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
