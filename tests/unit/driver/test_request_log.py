"""Requests that repeat each other are kept in little memory and given back byte for byte."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rollgym.driver.request_log import RequestLog, common_prefix, common_suffix

FEW_BYTES = st.binary(max_size=12) | st.text("ab", max_size=40).map(str.encode)


def logged(requests: list[bytes]) -> RequestLog:
    log = RequestLog()
    for request in requests:
        log.add(request)
    return log


@given(st.lists(FEW_BYTES, max_size=8))
def test_requests_come_back_as_they_were(requests: list[bytes]) -> None:
    assert logged(requests).all() == requests


@given(FEW_BYTES, FEW_BYTES, FEW_BYTES)
def test_what_two_have_in_common(start: bytes, one: bytes, other: bytes) -> None:
    left, right = start + one, start + other
    same = common_prefix(left, right)
    assert left[:same] == right[:same]
    assert same == min(len(left), len(right)) or left[same] != right[same]
    backwards = common_suffix(left[::-1], right[::-1])
    assert backwards == same


def test_a_conversation_that_grows_is_held_once() -> None:
    items, tail = [b"%08d" % at * 1250 for at in range(50)], b'],"tools":[' + b"t" * 5_000 + b"]}"
    tracemalloc.start()
    try:
        log = RequestLog()
        for count in range(1, len(items) + 1):
            log.add(b'{"input":[' + b",".join(items[:count]) + tail)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 560_000, "the last request, 505 kB, and a little for each other"
    assert [len(request) for request in log.all()] == [10 + 10_001 * count - 1 + len(tail) for count in range(1, 51)]
