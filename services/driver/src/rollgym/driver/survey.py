"""The first look at an answer or a row: one pass by simdjson over half a megabyte that is nearly all text.

It finds which fields there are, the values of those that are asked for, and what a trajectory says of performance. It
never judges: what simdjson refuses, or has another shape, gets no survey; msgspec reads it and says why.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from simdjson import Array, Object, Parser

from rollgym.driver.rollout_facts import NO_RESPONSE, ResponseFacts, read_response
from rollgym.driver.rollout_perf import NG_TRAJECTORY_KEY, TrajectoryEvidence

LARGEST_BYTES = 16 * 1024 * 1024
"""A parser keeps room for the largest answer that it has read; larger ones are not for it."""
_BOM = 0xEF
_MOST_OPENED = 900 if sys.version_info < (3, 12) else None
"""What reads rows back follows nested values as deep as simdjson does, 1,023; on Python 3.11 only about 950. An answer
that opens no more arrays and objects than this is no deeper."""
_MOST_NAMES = 200
"""Of an object that is looked into: simdjson looks for each name anew."""
_MOST_RECORDS = 100
"""Of a trajectory's lists together; what has more is read faster by msgspec."""
_NESTED = frozenset({Object, Array})
_RESPONSE_KEY = "response"
_OF_RESPONSE = ("usage", "status")
_OF_TRAJECTORY = {
    "invocations": ("invocation_id", "parent_invocation_id", "model_calls"),
    "turns": ("invocation_id",),
    "model_calls": ("model_call_id", "response_metadata", "token_stats"),
    "tool_calls": ("invocation_id",),
}
"""The fields of `TrajectoryEvidence`; beside them stand conversations, requests, responses and outputs."""
T = TypeVar("T")


class _Unusual(Exception):
    """Not the shape that a survey is for."""


def _text_of(nested: Object | Array) -> msgspec.Raw:
    """What `_encoder` asks for where simdjson has not built an object or list."""
    return msgspec.Raw(nested.mini)


_encoder = msgspec.json.Encoder(enc_hook=_text_of)


class _Observed(msgspec.Struct):
    ng_trajectory: TrajectoryEvidence


_observed_decoder = msgspec.json.Decoder(_Observed)
_evidence_decoder = msgspec.json.Decoder(TrajectoryEvidence)


class Survey(msgspec.Struct, frozen=True, gc=False):
    """What an answer holds, without its payloads."""

    names: frozenset[str]
    """Of all its fields."""
    fields: dict[str, msgspec.Raw]
    """Those asked for that are there, encoded."""
    response: ResponseFacts
    trajectory: TrajectoryEvidence | None
    """None where there is none, or it is null."""


class _Parsers(threading.local):
    """A parser for each thread: what it has read last lives in it, so that two at a time cannot use one."""

    def __init__(self) -> None:
        self.own = Parser(max_capacity=LARGEST_BYTES)


_parsers = _Parsers()


def survey(body: bytes | bytearray, wanted: Iterable[str]) -> Survey | None:
    """Look over `body`; None where msgspec has to read it. `wanted` are the fields to be read, small ones."""
    return _look(body, lambda root: _survey(root, body, wanted))


def picked(body: bytes, wanted: Sequence[str]) -> bytes | None:
    """An object of the `wanted` fields that are there, encoded; None where msgspec has to read `body`."""
    return _look(body, lambda root: _encoder.encode(_picked(root, wanted)))


def outline(body: bytes, without: Container[str], of_response: Sequence[str]) -> bytes | None:
    """`body` without the objects and lists named, and of its response only what is named.

    None where msgspec has to read it.
    """
    return _look(body, lambda root: _encoder.encode(_outline(root, without, of_response)))


def _look(body: bytes | bytearray, read: Callable[[Object], T]) -> T | None:
    """What `read` makes of the object in `body`."""
    if not body or body[0] == _BOM or (_MOST_OPENED and body.count(b"[") + body.count(b"{") > _MOST_OPENED):
        return None
    try:
        root = _parsers.own.parse(body)
        return read(root) if type(root) is Object else None
    except (_Unusual, ValueError, RuntimeError, LookupError):  # msgspec's and simdjson's own errors are such
        return None


def _survey(root: Object, body: bytes | bytearray, wanted: Iterable[str]) -> Survey:
    names = _names(root)
    return Survey(
        names,
        {name: msgspec.Raw(_encoder.encode(root[name])) for name in names.intersection(wanted)},
        _response(root[_RESPONSE_KEY]) if _RESPONSE_KEY in names else NO_RESPONSE,
        _evidence(root[NG_TRAJECTORY_KEY], body) if NG_TRAJECTORY_KEY in names else None,
    )


def _outline(root: Object, without: Container[str], of_response: Sequence[str]) -> dict[str, Any]:
    _names(root)
    fields: dict[str, Any] = {}
    for name in root:  # in their order
        if "\0" in name:
            raise _Unusual  # simdjson takes such a name for its beginning
        if name == _RESPONSE_KEY:
            fields[name] = _picked(root[name], of_response)
        elif name not in without or type(root[name]) not in _NESTED:
            fields[name] = root[name]
    return fields


def _names(record: Object) -> frozenset[str]:
    """Names of all fields. A name that is there twice is msgspec's to read: it takes the last, simdjson the first."""
    count = len(record)
    if count > _MOST_NAMES:
        raise _Unusual
    names = frozenset(record)
    if len(names) != count:
        raise _Unusual
    return names


def _picked(record: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Some fields of an object, those that are there, for `_encoder` to encode."""
    if type(record) is not Object:
        raise _Unusual
    names = _names(record)
    return {name: record[name] for name in wanted if name in names}


def _response(value: Any) -> ResponseFacts:
    return read_response(_encoder.encode(_picked(value, _OF_RESPONSE))) if type(value) is Object else NO_RESPONSE


def _evidence(trajectory: Any, body: bytes | bytearray) -> TrajectoryEvidence | None:
    if trajectory is None:
        return None
    if type(trajectory) is not Object:
        raise _Unusual
    names = _names(trajectory)
    found: dict[str, list[dict[str, Any]]] = {}
    left = _MOST_RECORDS
    for name, wanted in _OF_TRAJECTORY.items():
        if name not in names:
            continue
        records = trajectory[name]
        if type(records) is not Array:
            raise _Unusual
        left -= len(records)
        if left < 0:
            return _observed_decoder.decode(body).ng_trajectory
        found[name] = [_picked(each, wanted) for each in records]
    return _evidence_decoder.decode(_encoder.encode(found))
