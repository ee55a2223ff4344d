"""JSON, strict both ways: what is no JSON is refused with its reason, never written, never a crash."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.common import jsonx

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50)
@given(JSON_VALUES)
def test_what_is_written_reads_back(value: Any) -> None:
    assert jsonx.loads(jsonx.dumps(value)) == value


@settings(max_examples=50)
@given(JSON_VALUES)
def test_the_standard_library_reads_the_same(value: Any) -> None:
    assert json.loads(jsonx.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"1e999", b"-1e999", b"", b"{", b"[1,]", b"{'a': 1}", b'"\xff"', b"01",
     b"[" * 100_000, b'{"a": 1} x'],
    ids=lambda text: text[:12].decode(errors="replace"),
)  # fmt: skip
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        jsonx.loads(text)


@pytest.mark.parametrize(
    "value",
    [math.nan, [math.inf], {"a": {"b": -math.inf}}, (math.nan,), object(), {"a": {1, object()}}],
    ids=["NaN", "infinity", "infinity below", "NaN in a tuple", "an object", "an object below"],
)
def test_what_json_has_no_word_for_is_never_written(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        jsonx.dumps(value)


def test_null_and_the_text_null_are_written() -> None:
    assert jsonx.dumps([None, "null", 0.0]) == b'[null,"null",0.0]'


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800"], ids=ascii)
def test_lone_surrogates_go_through_as_escapes(text: str) -> None:
    written = jsonx.dumps({"a": text})
    assert written.isascii()
    assert jsonx.loads(written) == {"a": text}


def test_an_integer_beyond_any_float_is_read_as_it_is() -> None:
    assert jsonx.loads("1" + "0" * 400) == 10**400
