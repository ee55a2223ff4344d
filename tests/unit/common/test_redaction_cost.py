"""Redaction meets texts and names of any length and shape: its cost grows with them, no faster."""

import pytest

from rollgym.common.redaction import is_secret_name, redact_text

LONG = 300_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "x" * LONG,
        "x-" * (LONG // 2),
        "secret" * (LONG // 6),
        "a:" * (LONG // 2),
        "h://" * (LONG // 4),
        "basic " * (LONG // 6),
    ],
    ids=["one word", "dashes", "a keyword repeated", "colons", "schemes", "bearers"],
)
def test_a_long_text_is_redacted_in_time(text: str) -> None:
    assert len(redact_text(text)) > 0


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["max" + "_a" * 5000 + "_x", "_" * 10_000, "total_" * 2000 + "token"])
def test_a_long_name_is_judged_in_time(name: str) -> None:
    is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://me:S3NT1NEL@host/v1", "at http://***@host/v1"),
        ("POLICY_API_KEY=S3NT1NEL next", "POLICY_API_KEY=*** next"),
        ('{"client_secret": "S3NT1NEL"}', '{"client_secret": ***}'),
        ("my-long-password-of-mine : S3NT1NEL", "my-long-password-of-mine : ***"),
        ("x" * 200 + "_secret=S3NT1NEL", "x" * 200 + "_secret=***"),
        ("see https://host/path?x=1", "see https://host/path?x=1"),
        ("x" * 40 + "http://me:S3NT1NEL@host", "x" * 40 + "http://***@host"),
        ("max_tokens=100", "max_tokens=100"),
    ],
    ids=["userinfo", "assignment", "JSON", "spaces", "long name", "plain URL", "glued on", "a count"],
)
def test_what_is_replaced_and_what_stays(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize("name", ["max_tokens", "prompt_tokens", "total_cached_prompt_tokens", "num_tokens"])
def test_counts_of_tokens_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)
