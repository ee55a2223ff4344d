"""Numbers as people read them; what is absent is a dash."""

import pytest

from rollgym.head import formatting


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (0, "0 s"), (0.00042, "0.4 ms"), (0.0123, "12.3 ms"), (0.41, "410 ms"), (0.9996, "1.0 s"),
        (12.34, "12.3 s"), (59.96, "1 min"), (61, "1 min 1 s"),
        (3599.6, "1 h"), (7980, "2 h 13 min"), (180000, "2 d 2 h"),
        (-3, "0 s"), (float("inf"), "–"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (None, 10, "–"), (3, None, "–"), (3, 0, "–"), (0, 10, "0%"), (10, 10, "100%"), (1, 3, "33.3%"),
        (1, 100000, "<0.1%"), (99999, 100000, ">99.9%"),
    ],
)  # fmt: skip
def test_shares_never_round_to_nothing_or_all(part: int | None, whole: int | None, text: str) -> None:
    assert formatting.share(part, whole) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.000"),
        (0.625, "0.625"),
        (-1.5, "-1.500"),
        (1e-6, "1e-06"),
        (float("nan"), "–"),
        (1e300, "1e+300"),
    ],
)
def test_decimals(value: float | None, text: str) -> None:
    assert formatting.decimal(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0, "0"), (1234567, "1,234,567"), (10.6, "11")])
def test_counts(value: float | None, text: str) -> None:
    assert formatting.count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0.4, "just now"), (4.7, "4 s ago"), (125, "2 min 5 s ago")]
)
def test_ages(seconds: float | None, text: str) -> None:
    assert formatting.ago(seconds) == text


@pytest.mark.parametrize("epoch_s", [None, 1e300, float("nan"), -1e18])
def test_a_moment_that_is_none_is_a_dash(epoch_s: float | None) -> None:
    assert (formatting.instant(epoch_s), formatting.iso(epoch_s), formatting.minute(epoch_s)) == ("–", "", "–")


def test_moments_are_utc() -> None:
    assert formatting.instant(0) == "1970-01-01 00:00:00 UTC"
    assert formatting.iso(0) == "1970-01-01T00:00:00+00:00"
