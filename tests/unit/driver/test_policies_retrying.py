"""When a model call is repeated, and how long that waits."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.driver.policies.retrying import Backoff, is_retryable_status, parse_retry_after

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, False) for status in (400, 401, 403, 404, 422)),
        *((status, True) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
    ],
)
def test_only_what_time_can_heal_is_repeated(status: int, *, retryable: bool) -> None:
    assert is_retryable_status(status) is retryable


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param(None, None, id="absent"),
        pytest.param("3", 3.0, id="seconds"),
        pytest.param(" 0.5 ", 0.5, id="fraction"),
        pytest.param("-4", 0.0, id="negative"),
        pytest.param("Thu, 01 Jan 2026 12:00:07 GMT", 7.0, id="date"),
        pytest.param("Thu, 01 Jan 2026 11:00:00 GMT", 0.0, id="past-date"),
        pytest.param("soon", None, id="garbage"),
        pytest.param("inf", None, id="infinite"),
        pytest.param("nan", None, id="nan"),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, NOON) == seconds


@given(st.integers(1, 200), st.integers(0, 10_000))
def test_delays_stay_about_the_cap_and_differ(attempt: int, seed: int) -> None:
    backoff = Backoff(first_s=0.5, cap_s=30, source=random.Random(seed))
    assert 0.25 <= backoff.delay(attempt) <= 45


@given(st.integers(1, 20), st.floats(0, 100), st.integers(0, 1000))
def test_a_delay_is_never_below_what_the_server_asked_for(attempt: int, asked_s: float, seed: int) -> None:
    backoff = Backoff(first_s=0.5, cap_s=30, source=random.Random(seed))
    assert asked_s <= backoff.delay(attempt, asked_s) <= asked_s + 30
