"""One result on its way from the socket to the file: the few fields that are decoded, and the bytes that are not.

A payload is read as an object whose values stay encoded; identity, timings and `ng_perf` are put in beside them; the
line that results goes to the writer. Nothing of a payload lives longer than that.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rollgym.common.errors import AgentRequestFailed, InvalidReward
from rollgym.common.surrogates import decode_masking, unmask_lone_surrogates
from rollgym.driver.artifacts.lines import Line
from rollgym.driver.rollout_perf import NG_PERF_KEY, NG_TRAJECTORY_KEY, Gap, read_trajectory

_RawObject = dict[str, msgspec.Raw]
_object_decoder = msgspec.json.Decoder(_RawObject)
_encoder = msgspec.json.Encoder()
_NO_WORD = re.compile(r"[^\w.-]+")
CLASS_LIMIT = 64
_NO_NUMBER = re.compile(rb'"reward"\s*:\s*(-?(?:NaN|Infinity))')
_PAYLOAD_KEYS = ("request", "response")
_NUMBER_STARTS = frozenset(b"-0123456789tf")
TIMINGS_KEY = "rollgym_timings"
TOKENS_KEY = "rollgym_tokens"


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


class _AnyUsage(msgspec.Struct):
    usage: _RawObject | None = None


_response_decoder = msgspec.json.Decoder(_Response)
_any_usage_decoder = msgspec.json.Decoder(_AnyUsage)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one rollout's final response; each None where the model reported none. `cached` is part of `input`."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None

    def to_json(self) -> dict[str, int]:
        """Those that are known, by name."""
        known = {"input": self.input, "output": self.output, "cached": self.cached, "reasoning": self.reasoning}
        return {kind: count for kind, count in known.items() if count is not None}


@dataclass(frozen=True, slots=True)
class RolloutFacts:
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


class Payload:
    """One verify response as an object of encoded values; decodes a field when it is asked for it."""

    def __init__(self, body: bytes) -> None:
        """Raises AgentRequestFailed where `body` is no JSON object in UTF-8."""
        try:
            if not body.isascii():
                body.decode("utf-8")
            self._fields, self._text = decode_masking(body, _object_decoder)
            self._added: _RawObject = {}
            self._rewritten = not self._fields
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if found := _NO_NUMBER.search(body):
                raise InvalidReward(f"the reward is no finite number: {found[1].decode()}") from error
            shown = body[:200].decode("utf-8", errors="replace")
            raise AgentRequestFailed(f"the result is no JSON object ({error}): {shown}", terminal=True) from error
        self._masked_text = self._text is not body
        self._body = body

    def value(self, name: str) -> Any:
        """One small field, decoded; None where it is absent. A number too large for a float comes as it is."""
        raw = self._fields.get(name)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return None

    def has(self, name: str) -> bool:
        return name in self._fields

    def raw(self, name: str) -> bytes | None:
        raw = self._fields.get(name)
        return None if raw is None else bytes(raw)

    def put(self, name: str, value: Any) -> None:
        """Set a field; bytes are taken as JSON that is encoded already."""
        encoded = msgspec.Raw(value if isinstance(value, bytes) else _encoder.encode(value))
        if name in self._fields and name not in self._added:
            if self._fields[name] == encoded:
                return
            self._rewritten = True
        else:
            self._added[name] = encoded
        self._fields[name] = encoded

    def drop(self, name: str) -> None:
        if self._fields.pop(name, None) is not None and self._added.pop(name, None) is None:
            self._rewritten = True

    def line(self) -> Line:
        """The payload as one line, without its newline, in parts.

        Where fields were only added, which is the rule, the body's own bytes are a part: they are copied no more.
        """
        body = self._body
        if not (self._rewritten or self._masked_text or b"\n" in body or b"\r" in body):
            added = _encoder.encode(self._added)
            return (body,) if not self._added else (memoryview(body)[: body.rindex(b"}")], b",", added[1:])
        encoded = _encoder.encode(self._fields)
        if b"\n" in encoded or b"\r" in encoded:
            encoded = msgspec.json.format(encoded, indent=-1)
        return (unmask_lone_surrogates(encoded) if self._masked_text else encoded,)

    def failure_marks(self) -> FailureMarks | None:
        """The failure that an agent server reports in an answer of 200, or None.

        `_ng_no_persist` says that the answer is none, whatever else stands in it.
        """
        failure_class, no_persist = self.value("_ng_failure_class"), self.value("_ng_no_persist")
        if failure_class in (None, False) and not no_persist:
            return None
        name = _NO_WORD.sub("_", failure_class)[:CLASS_LIMIT] if isinstance(failure_class, str) else "agent_reported"
        reason = self.value("error_message") or self.value("failure_reason") or name
        return FailureMarks(name, bool(self.value("_ng_failure_terminal")), str(reason))

    def build_perf(self, latency_ms: float) -> None:
        """Put `ng_perf` in, from the trajectory; an agent server's own is replaced. Absent where nothing was seen.

        What of the trajectory could not be used is said in its `gaps`.
        """
        self.drop(NG_PERF_KEY)
        trajectory = self._fields.get(NG_TRAJECTORY_KEY)
        if trajectory is None:
            return
        reading = read_trajectory(bytes(trajectory), latency_ms)
        if reading.gaps:
            self.put(NG_TRAJECTORY_KEY, self._with_gaps(trajectory, reading.gaps))
        if reading.perf is not None:
            self.put(NG_PERF_KEY, reading.perf)

    def _with_gaps(self, trajectory: msgspec.Raw, gaps: list[Gap]) -> bytes:
        """The trajectory with `gaps` beside its own; what is none at all is kept apart, and an empty one says so."""
        try:
            fields = _object_decoder.decode(trajectory)
            own = msgspec.json.decode(fields.get("gaps", b"[]"), type=list[msgspec.Raw])
        except msgspec.DecodeError:
            self.put("ng_trajectory_invalid", bytes(trajectory))
            task, rollout = self.value("_ng_task_index"), self.value("_ng_rollout_index")
            identity = {"schema_version": "1.0", "task_id": str(task), "rollout_id": f"{task}-{rollout}"}
            fields, own = {name: msgspec.Raw(_encoder.encode(value)) for name, value in identity.items()}, []
        fields["gaps"] = msgspec.Raw(_encoder.encode([*own, *gaps]))
        return _encoder.encode(fields)

    def facts(self) -> RolloutFacts:
        """What the run keeps of this result. Raises InvalidReward where its reward is no measurement."""
        masked = self.value("mask_sample") not in (None, False)
        response = self._response()
        tokens = _tokens(response)
        perf = self.value(NG_PERF_KEY)
        kind = self.value("failure_kind")
        return RolloutFacts(
            reward=self._reward(masked),
            masked=masked,
            failure_kind=kind if isinstance(kind, str) else None,
            truncated=self.value("truncated") is True or response.status == "incomplete",
            tokens=tokens,
            perf=perf if isinstance(perf, dict) else None,
            agent=self.agent(),
            tags=_tags(self.value("tags")),
            never_ran=tokens.input == 0,
        )

    def agent(self) -> str:
        """The name in `agent_ref`, or "unknown"."""
        ref = self.value("agent_ref")
        name = ref.get("name") if isinstance(ref, dict) else None
        return name if isinstance(name, str) else "unknown"

    def numbers(self) -> dict[str, float]:
        """Top-level numbers and booleans, those of the response's usage laid over them; no identity, no mask flag."""
        found = _numbers(self._fields)
        response = self._fields.get("response")
        if response is not None:
            with contextlib.suppress(msgspec.DecodeError):
                found |= _numbers(_any_usage_decoder.decode(response).usage or {})
        return found

    def _reward(self, masked: bool) -> float | None:
        """Finite numbers pass, booleans become 1.0 and 0.0; everything else is no reward."""
        raw = self.raw("reward")
        try:
            value = None if raw is None else msgspec.json.decode(raw)
            number = float(value) if isinstance(value, int | float) else None
        except (msgspec.DecodeError, OverflowError):
            number = None
        if number is not None and math.isfinite(number):
            if isinstance(value, bool):
                self.put("reward", number)
            return number
        if masked:
            return None
        shown = "absent" if raw is None else raw[:60].decode(errors="replace")
        raise InvalidReward(f"the reward is no finite number: {shown}", reward=shown)

    def _response(self) -> _Response:
        raw = self._fields.get("response")
        if raw is None:
            return _Response()
        try:
            return _response_decoder.decode(raw)
        except msgspec.DecodeError:
            return _Response()

    def strip_capture(self) -> None:
        """Take the model requests and responses out of `ng_trajectory` and `ng_model_call_capture`."""
        trajectory = self.raw(NG_TRAJECTORY_KEY)
        if trajectory is not None:
            self.put(NG_TRAJECTORY_KEY, _without_payloads(trajectory, "model_calls"))
        capture = self.raw("ng_model_call_capture")
        if capture is not None:
            self.put("ng_model_call_capture", _without_payloads(capture, "calls"))


def _numbers(fields: _RawObject) -> dict[str, float]:
    found = {}
    for name, raw in fields.items():
        if name.startswith("_") or name == "mask_sample" or memoryview(raw)[0] not in _NUMBER_STARTS:
            continue
        try:
            number = float(msgspec.json.decode(raw))
        except (msgspec.DecodeError, OverflowError):
            continue
        if math.isfinite(number):
            found[name] = number
    return found


def _tokens(response: _Response) -> Tokens:
    usage = response.usage
    if usage is None:
        return Tokens()
    return Tokens(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached=usage.input_tokens_details.cached_tokens if usage.input_tokens_details else None,
        reasoning=usage.output_tokens_details.reasoning_tokens if usage.output_tokens_details else None,
    )


def _tags(tags: Any) -> dict[str, str]:
    """A row's tags as text by name; a list of words counts as tags named ``tag:<word>``; anything else as none."""
    if isinstance(tags, dict):
        return {name: str(value) for name, value in tags.items() if isinstance(value, str | int | float)}
    if isinstance(tags, list):
        return {f"tag:{word}": "yes" for word in tags if isinstance(word, str)}
    return {}


def _without_payloads(record: bytes, calls_key: str) -> bytes:
    """`record` with the request and response of each of its calls dropped; as it is where it has no such shape."""
    try:
        fields = _object_decoder.decode(record)
        calls = msgspec.json.decode(fields.get(calls_key, b"[]"), type=list[_RawObject])
    except msgspec.DecodeError:
        return record
    for call in calls:
        for name in _PAYLOAD_KEYS:
            call.pop(name, None)
    if calls_key in fields:
        fields[calls_key] = msgspec.Raw(_encoder.encode(calls))
    return _encoder.encode(fields)
