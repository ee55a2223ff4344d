"""Keeps secrets out of everything that is shown: names that hold one, URLs with a password, known values."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "***"

_SECRET_NAME = re.compile(
    r"(^|[_\-.\s])(api[_\-]?key|access[_\-]?key|private[_\-]?key|signing[_\-]?key|secret[_\-]?key|key|token|secret|password"
    r"|passwd|passphrase|credential|credentials|authorization|auth|bearer|cookie|set-cookie)s?$",
    re.IGNORECASE,
)
_SECRET_PART = re.compile(r"secret|password|passwd|credential|api[_\-]?key|authorization", re.IGNORECASE)
_COUNTED_TOKENS = re.compile(
    r"(^|_)(max|min|num|n|total|input|output|prompt|completion|cached|reasoning|mean|median)(_[a-z0-9]+)*_tokens?$",
    re.IGNORECASE,
)
# These meet texts of any length: each is anchored or bounded, so that its cost grows with the text and no faster.
_USERINFO = re.compile(r"([a-z][a-z0-9+.\-]{0,30}://)[^/\s@:?#]*(?::[^/\s@?#]*)?@", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]{4,}", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"""((?:api[_\-]?key|secret|password|passwd|credential|authorization|access[_\-]?token|auth[_\-]?token)"""
    r"""[\w\-]{0,64}["']?\s{0,8}[:=]\s{0,8})("[^"]*"|'[^']*'|[^\s,;&}\]]+)""",
    re.IGNORECASE,
)
_KEY_SHAPED = re.compile(r"\b(sk|pk|rk|hf|ghp|gho|xox[abp])[-_][A-Za-z0-9_\-]{12,}")


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret. `max_tokens` and its kind are counts, not secrets."""
    if _COUNTED_TOKENS.search(name[-200:]):
        return False
    return bool(_SECRET_NAME.search(name) or _SECRET_PART.search(name))


def redact(value: Any) -> Any:
    """A copy of nested JSON-like data with every secret replaced by ``***``."""
    if isinstance(value, Mapping):
        return {
            key: REDACTED if isinstance(key, str) and is_secret_name(key) and item not in (None, "") else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [redact(item) for item in value]
    return value


def redact_text(text: str) -> str:
    """Text with URL passwords, bearer tokens, ``key=value`` secrets and key-shaped words replaced."""
    text = _USERINFO.sub(r"\1" + REDACTED + "@", text)
    text = _BEARER.sub(r"\1 " + REDACTED, text)
    text = _ASSIGNED.sub(r"\1" + REDACTED, text)
    return _KEY_SHAPED.sub(REDACTED, text)
