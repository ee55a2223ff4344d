"""Token counts: summed where reported, never invented."""

from typing import Any

import pytest

from rollgym.driver.policies import Usage


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        pytest.param(None, None, id="absent"),
        pytest.param({}, None, id="empty"),
        pytest.param("12", None, id="no-object"),
        pytest.param({"input_tokens": -1, "output_tokens": True}, None, id="no-counts"),
        pytest.param(
            {"input_tokens": 100, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 30}},
            Usage(100, 30, 50, None, 150),
            id="total-derived-cached-inside",
        ),
        pytest.param({"input_tokens": 0, "output_tokens": 0}, Usage(0, None, 0, None, 0), id="zero-is-a-count"),
        pytest.param({"output_tokens": 5, "output_tokens_details": None}, Usage(output_tokens=5), id="partial"),
    ],
)
def test_usage_is_read_as_it_was_reported(usage: Any, read: Usage | None) -> None:
    assert Usage.from_responses(usage) == read


def test_sums_count_only_what_somebody_reported() -> None:
    first, second = Usage(10, None, 5, 2, 15), Usage(7, 3, 4, None, 11)
    assert first + second == Usage(17, 3, 9, 2, 26)
    assert first + None == first
