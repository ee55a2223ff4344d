"""Token counts of model calls: what was reported, and nothing that was not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several model calls. None means that nobody reported that number; it is never a zero.

    Cached tokens are part of the input, reasoning tokens part of the output.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None

    @classmethod
    def from_responses(cls, usage: Any) -> "Usage | None":
        """The `usage` of a Responses object; None where it is absent or counts nothing."""
        return cls._read(usage, "input", "output")

    @classmethod
    def from_chat(cls, usage: Any) -> "Usage | None":
        """The `usage` of a chat completion; None where it is absent or counts nothing."""
        return cls._read(usage, "prompt", "completion")

    @classmethod
    def _read(cls, usage: Any, into: str, out: str) -> "Usage | None":
        if not isinstance(usage, Mapping):
            return None
        given, produced = _count(usage, f"{into}_tokens"), _count(usage, f"{out}_tokens")
        total = _count(usage, "total_tokens")
        if total is None and given is not None and produced is not None:
            total = given + produced
        read = cls(
            input_tokens=given,
            cached_tokens=_count(usage.get(f"{into}_tokens_details"), "cached_tokens"),
            output_tokens=produced,
            reasoning_tokens=_count(usage.get(f"{out}_tokens_details"), "reasoning_tokens"),
            total_tokens=total,
        )
        return None if read == cls() else read

    def __add__(self, other: "Usage | None") -> "Usage":
        if other is None:
            return self
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            total_tokens=_sum(self.total_tokens, other.total_tokens),
        )

    def to_responses(self) -> dict[str, Any]:
        """The `usage` of a Responses object; a number that nobody reported is null."""
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": self.cached_tokens},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.total_tokens,
        }


def _count(counts: Any, name: str) -> int | None:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return value if type(value) is int and value >= 0 else None


def _sum(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right
