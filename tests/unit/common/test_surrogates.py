"""Masking lone surrogates for the fast decoder: undone without a trace, and nothing else touched."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.common.surrogates import decode_masking, mask_lone_surrogates, unmask_lone_surrogates

ANY_TEXT = st.text(st.characters(blacklist_categories=()) | st.sampled_from('\ud800\udbff\udc00\udfff\ufdd0\\"ud8'))
DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


@settings(max_examples=80)
@given(ANY_TEXT)
def test_masked_and_unmasked_is_the_same_text_to_a_reader(text: str) -> None:
    written = json.dumps({"a": text}).encode()
    back = unmask_lone_surrogates(mask_lone_surrogates(written))
    assert json.loads(back) == json.loads(written)


@settings(max_examples=80)
@given(ANY_TEXT)
def test_masked_text_is_taken_by_the_fast_decoder(text: str) -> None:
    written = json.dumps({"a": text}).encode()
    fields, decoded = decode_masking(written, DECODER)
    assert unmask_lone_surrogates(bytes(fields["a"])).startswith(b'"')
    assert json.loads(unmask_lone_surrogates(decoded)) == {"a": json.loads(written)["a"]}
    assert isinstance(msgspec.json.decode(fields["a"]), str)


@settings(max_examples=80)
@given(st.text())
def test_text_without_lone_surrogates_is_not_touched(text: str) -> None:
    for written in (json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()):
        assert mask_lone_surrogates(written) == written


@pytest.mark.parametrize(
    "written",
    [rb'"\\ud800"', rb'"\\\\ud83d"', rb'"\ud83d\ude00"', rb'"\\u005cud800"', rb'"\uD83D\uDE00"'],
    ids=["escaped-backslash", "two-escaped-backslashes", "pair", "escaped-escape", "pair-in-capitals"],
)
def test_only_escapes_of_lone_surrogates_are_masked(written: bytes) -> None:
    assert mask_lone_surrogates(written) == written


@pytest.mark.parametrize(
    "written", [rb'"\ud800"', rb'"\uDFFF"', rb'"\ud800\ud800"', rb'"\\\ud800"', rb'"\udc00\ud83d\ude00"']
)
def test_lone_ones_are_masked_wherever_they_stand(written: bytes) -> None:
    masked = mask_lone_surrogates(written)
    assert masked != written
    assert unmask_lone_surrogates(masked).lower() == written.lower()
    msgspec.json.decode(masked)


def test_what_is_no_json_is_refused_as_before() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_masking(b'{"a": ', DECODER)
