"""One result on its way from the socket to the file: the few fields that are decoded, and the bytes that are not.

A payload is read as an object whose values stay encoded; identity, timings and `ng_perf` are put in beside them; the
line that results goes to the writer. Nothing of a payload lives longer than that.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import msgspec

from rollgym.common.errors import AgentRequestFailed, InvalidReward
from rollgym.common.surrogates import decode_masking, unmask_lone_surrogates
from rollgym.driver.artifacts.lines import Line
from rollgym.driver.rollout_facts import FailureMarks, RolloutFacts, read_response, read_tags
from rollgym.driver.rollout_perf import (
    NG_PERF_KEY,
    NG_TRAJECTORY_KEY,
    Gap,
    read_evidence,
    read_trajectory,
)
from rollgym.driver.survey import survey

_RawObject = dict[str, msgspec.Raw]
_object_decoder = msgspec.json.Decoder(_RawObject)
_any_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_NO_WORD = re.compile(r"[^\w.-]+")
CLASS_LIMIT = 64
_NO_NUMBER = re.compile(rb'"reward"\s*:\s*(-?(?:NaN|Infinity))')
_PAYLOAD_KEYS = ("request", "response")
_NUMBER_STARTS = frozenset(b"-0123456789tf")
TIMINGS_KEY = "rollgym_timings"
TOKENS_KEY = "rollgym_tokens"


class _AnyUsage(msgspec.Struct):
    usage: _RawObject | None = None


_any_usage_decoder = msgspec.json.Decoder(_AnyUsage)


_READ = frozenset({
    "reward", "mask_sample", "truncated", "failure_kind", "failure_reason", "error_message", "tags", "agent_ref",
    "_ng_task_index", "_ng_rollout_index", "_ng_attempt_index", "_ng_failure_class", "_ng_failure_terminal",
    "_ng_no_persist", NG_PERF_KEY, TIMINGS_KEY,
})  # fmt: skip
"""The small fields that a run reads or puts in; of the response and the trajectory it reads a little more."""


class Payload:
    """One verify response as an object of encoded values; decodes a field when it is asked for it.

    One fast pass (`survey`) finds what a run reads of an answer. Where it does not do, and where a line has to be put
    together anew, msgspec finds all fields. A `finished` row has its `ng_perf`, and is read for all of its fields.
    """

    def __init__(self, body: bytes | bytearray, *, finished: bool = False) -> None:
        """Raises AgentRequestFailed where `body` is no JSON object in UTF-8."""
        self._body = self._text = body
        self._changes: dict[str, msgspec.Raw | None] = {}
        self._all: _RawObject | None = None
        self._survey = None if finished else survey(body, _READ)
        if self._survey is None:
            self._find_all()

    def _find_all(self) -> None:
        """All fields, and the text that they are part of: the body, or it with its surrogates masked."""
        body = self._body
        try:
            if not body.isascii():
                body.decode("utf-8")
            fields, self._text = decode_masking(body, _object_decoder)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if found := _NO_NUMBER.search(body):
                raise InvalidReward(f"the reward is no finite number: {found[1].decode()}") from error
            shown = body[:200].decode("utf-8", errors="replace")
            raise AgentRequestFailed(f"the result is no JSON object ({error}): {shown}", terminal=True) from error
        self._all = fields

    def _every(self) -> _RawObject:
        """All fields of the body, as they came."""
        if self._all is None:
            self._all = _object_decoder.decode(self._text)
        return self._all

    def _now(self) -> _RawObject:
        """All fields as they are now."""
        return {name: raw for name, raw in {**self._every(), **self._changes}.items() if raw is not None}

    def _find(self, name: str) -> msgspec.Raw | None:
        if name in self._changes:
            return self._changes[name]
        return self._came(name)

    def _came(self, name: str) -> msgspec.Raw | None:
        """A field as it came, whatever was put in or dropped since."""
        if self._survey is not None:
            if name not in self._survey.names:
                return None
            if name in self._survey.fields:
                return self._survey.fields[name]
        return self._every().get(name)

    def _came_with(self, name: str) -> bool:
        return name in (self._every() if self._survey is None else self._survey.names)

    def value(self, name: str) -> Any:
        """One small field, decoded, lone surrogates masked; None where it is absent, or no value can be made of it."""
        raw = self._find(name)
        if raw is None:
            return None
        try:
            return _any_decoder.decode(raw)
        except msgspec.DecodeError:
            with contextlib.suppress(msgspec.DecodeError):
                return decode_masking(bytes(raw), _any_decoder)[0]
        return None

    def has(self, name: str) -> bool:
        return self._changes[name] is not None if name in self._changes else self._came_with(name)

    def raw(self, name: str) -> bytes | None:
        raw = self._find(name)
        return None if raw is None else bytes(raw)

    def put(self, name: str, value: Any) -> None:
        """Set a field; bytes are taken as JSON that is encoded already."""
        encoded = msgspec.Raw(value if isinstance(value, bytes) else _encoder.encode(value))
        if self._came(name) == encoded:
            self._changes.pop(name, None)
        else:
            self._changes[name] = encoded

    def drop(self, name: str) -> None:
        if self._came_with(name):
            self._changes[name] = None
        else:
            self._changes.pop(name, None)

    def line(self) -> Line:
        """The payload as one line, without its newline, in parts.

        Where fields were only added, which is the rule, the body's own bytes are a part: they are copied no more.
        """
        body = self._body
        has_fields = bool(self._every() if self._survey is None else self._survey.names)
        only_added = has_fields and not any(map(self._came_with, self._changes))
        if only_added and self._text is body and not (b"\n" in body or b"\r" in body):
            added = _encoder.encode(self._changes)
            return (body,) if not self._changes else (memoryview(body)[: body.rindex(b"}")], b",", added[1:])
        encoded = _encoder.encode(self._now())
        if b"\n" in encoded or b"\r" in encoded:
            encoded = msgspec.json.format(encoded, indent=-1)
        return (encoded if self._text is body else unmask_lone_surrogates(encoded),)

    def failure_marks(self) -> FailureMarks | None:
        """The failure that an agent server reports in an answer of 200, or None.

        `_ng_no_persist` says that the answer is none, whatever else stands in it.
        """
        failure_class, no_persist = self.value("_ng_failure_class"), self.value("_ng_no_persist")
        if failure_class in (None, False) and not no_persist:
            return None
        said = failure_class if isinstance(failure_class, str) else ""
        name = _NO_WORD.sub("_", said)[:CLASS_LIMIT] or "agent_reported"
        reason = self.value("error_message") or self.value("failure_reason") or name
        return FailureMarks(name, bool(self.value("_ng_failure_terminal")), str(reason))

    def build_perf(self, latency_ms: float) -> None:
        """Put `ng_perf` in, from the trajectory; an agent server's own is replaced. Absent where nothing was seen.

        A trajectory of null is none. What of the trajectory could not be used is said in its `gaps`.
        """
        self.drop(NG_PERF_KEY)
        if self._survey is not None and NG_TRAJECTORY_KEY not in self._changes:
            if self._survey.trajectory is None:
                return
            reading = read_evidence(self._survey.trajectory, latency_ms)
        elif (trajectory := self.raw(NG_TRAJECTORY_KEY)) is not None and trajectory != b"null":
            reading = read_trajectory(trajectory, latency_ms)
        else:
            return
        if reading.gaps:
            self.put(NG_TRAJECTORY_KEY, self._with_gaps(reading.gaps))
        if reading.perf is not None:
            self.put(NG_PERF_KEY, reading.perf)

    def _with_gaps(self, gaps: list[Gap]) -> bytes:
        """The trajectory with `gaps` beside its own; what is none at all is kept apart, and an empty one says so."""
        trajectory = self._find(NG_TRAJECTORY_KEY)
        assert trajectory is not None
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
        response = read_response(self._find("response")) if self._survey is None else self._survey.response
        perf = self.value(NG_PERF_KEY)
        kind = self.value("failure_kind")
        return RolloutFacts(
            reward=self._reward(masked),
            masked=masked,
            failure_kind=kind if isinstance(kind, str) else None,
            truncated=self.value("truncated") is True or response.incomplete,
            tokens=response.tokens,
            perf=perf if isinstance(perf, dict) else None,
            agent=self.agent(),
            tags=read_tags(self.value("tags")),
            never_ran=response.tokens.input == 0,
        )

    def agent(self) -> str:
        """The name in `agent_ref`, or "unknown"."""
        ref = self.value("agent_ref")
        name = ref.get("name") if isinstance(ref, dict) else None
        return name if isinstance(name, str) else "unknown"

    def numbers(self) -> dict[str, float]:
        """Top-level numbers and booleans, those of the response's usage laid over them; no identity, no mask flag."""
        found = _numbers(self._now())
        response = self._find("response")
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
        came = self._every().get("reward")
        shown = "absent" if came is None else bytes(came)[:60].decode(errors="replace")
        raise InvalidReward(f"the reward is no finite number: {shown}", reward=shown)

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
