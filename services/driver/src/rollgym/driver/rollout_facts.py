"""What a run keeps of a result: its reward, marks, tokens and tags. Nothing of a payload stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


class _TokenDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _TokenDetails | None = None
    output_tokens_details: _TokenDetails | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None
    status: str | None = None


_response_decoder = msgspec.json.Decoder(_Response)


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one rollout's final response; each None where the model reported none. `cached` is part of `input`."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None

    def to_json(self) -> dict[str, int]:
        """Those that are known, by name."""
        known = {"input": self.input, "output": self.output, "cached": self.cached, "reasoning": self.reasoning}
        return {kind: count for kind, count in known.items() if count is not None}


class RolloutFacts(msgspec.Struct, frozen=True, gc=False):
    """The numbers that outlive a payload. `reward` is None exactly where the row is masked without one."""

    reward: float | None
    masked: bool
    failure_kind: str | None
    truncated: bool
    tokens: Tokens
    perf: dict[str, Any] | None
    agent: str
    tags: Mapping[str, str]
    never_ran: bool
    """The model read no token, although usage was reported: the agent probably never started."""


@dataclass(frozen=True, slots=True)
class FailureMarks:
    """What an agent server says of a rollout that it could not finish (`_ng_failure_class` and its kind)."""

    failure_class: str
    terminal: bool
    message: str


class ResponseFacts(msgspec.Struct, frozen=True, gc=False):
    """What is read of a final response: its tokens, and whether the model broke off."""

    tokens: Tokens
    incomplete: bool


NO_RESPONSE = ResponseFacts(Tokens(), incomplete=False)


def read_response(response: bytes | msgspec.Raw | None) -> ResponseFacts:
    """Read a response; one that is absent, or of another shape, says nothing."""
    if response is None:
        return NO_RESPONSE
    try:
        found = _response_decoder.decode(response)
    except msgspec.DecodeError:
        return NO_RESPONSE
    return ResponseFacts(_tokens(found.usage), found.status == "incomplete")


def read_tags(tags: Any) -> dict[str, str]:
    """A row's tags as text by name; a list of words counts as tags named ``tag:<word>``; anything else as none."""
    if isinstance(tags, dict):
        return {name: str(value) for name, value in tags.items() if isinstance(value, str | int | float)}
    if isinstance(tags, list):
        return {f"tag:{word}": "yes" for word in tags if isinstance(word, str)}
    return {}


def _tokens(usage: _Usage | None) -> Tokens:
    if usage is None:
        return Tokens()
    return Tokens(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached=usage.input_tokens_details.cached_tokens if usage.input_tokens_details else None,
        reasoning=usage.output_tokens_details.reasoning_tokens if usage.output_tokens_details else None,
    )
