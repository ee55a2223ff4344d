"""Lone surrogates in JSON text, which the fast decoder refuses: masked for decoding, put back for storing.

JSON may hold ``\\ud800`` without its other half; no UTF-8 text can. Masking turns such an escape into ``\\ufdd0d800``:
a code point that Unicode keeps free for a program's own use, then the four digits as text. Unmasking undoes it.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
Text = TypeVar("Text", bytes, bytes | bytearray)

_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_MASKED = re.compile(rb"(?:\\u[fF][dD][dD]0|\xef\xb7\x90)([dD][89a-fA-F][0-9a-fA-F]{2})")


def _masked(found: re.Match[bytes]) -> bytes:
    return rb"\ufdd0" + found[1] if found[1] else found[0]


def mask_lone_surrogates(text: bytes | bytearray) -> bytes:
    """JSON text in which every lone surrogate escape is masked; whole pairs and all else stay as they are."""
    return _ESCAPES.sub(_masked, text)


def unmask_lone_surrogates(text: bytes) -> bytes:
    """JSON text with the masked escapes put back."""
    return _MASKED.sub(rb"\\u\1", text) if b"dd0" in text.lower() or b"\xef\xb7\x90" in text else text


def decode_masking(text: Text, decoder: "msgspec.json.Decoder[T]") -> tuple[T, Text | bytes]:
    """Decode, masking lone surrogates where they are what stops the decoder.

    Returns the value and the text that was decoded: `text` itself, or its masked form. Raises msgspec.DecodeError.
    """
    try:
        return decoder.decode(text), text
    except msgspec.DecodeError:
        masked = mask_lone_surrogates(text)
        if masked == text:
            raise
        return decoder.decode(masked), masked
