"""No secret in what is shown: by name, in a URL, as a bearer token, inside a text; counts of tokens stay."""

import json
from typing import Any

import pytest

from rollgym.common.redaction import redact, redact_text

SENTINEL = "S3NT1NEL"


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "apiKey", "API-KEY", "OPENAI_API_KEY", "password", "db_password", "passwd", "client_secret",
        "clientSecret", "secret", "credential", "credentials", "aws_credentials", "authorization", "Authorization",
        "token", "access_token", "HF_TOKEN", "cookie", "Set-Cookie", "private_key", "signing_key", "x-api-key",
    ],
)  # fmt: skip
def test_a_secret_is_hidden_by_its_name_at_any_depth(name: str) -> None:
    shown = json.dumps(redact({"a": [{"b": ({name: SENTINEL},)}], name: [SENTINEL, {"x": SENTINEL}]}))
    assert SENTINEL not in shown


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "max_output_tokens", "max_completion_tokens", "input_tokens", "total_tokens", "prompt_tokens",
     "cached_prompt_tokens", "monkey", "keyboard", "tokenizer", "author", "_ng_task_index", "keys_total"],
)  # fmt: skip
def test_what_is_no_secret_stays_readable(name: str) -> None:
    assert redact({name: 100}) == {name: 100}
    assert redact({name: "plain"}) == {name: "plain"}


@pytest.mark.parametrize(
    "text",
    [
        f"http://user:{SENTINEL}@host:80/v1 is away",
        f"postgres://{SENTINEL}@host",
        f"Authorization: Bearer {SENTINEL}-token",
        f"authorization=Basic {SENTINEL}",
        f'{{"api_key": "{SENTINEL}"}}',
        f"api_key={SENTINEL}&model=x",
        f"password: '{SENTINEL} with spaces'",
        f"client_secret={SENTINEL}",
        f"key sk-{SENTINEL}0123456789 is wrong",
    ],
)
def test_a_secret_is_hidden_inside_a_text(text: str) -> None:
    assert SENTINEL not in redact_text(text)


@pytest.mark.parametrize("value", [None, 1, 2.5, True, "plain", b"bytes", [], {}, ["http://host:80/v1"]], ids=repr)
def test_other_values_come_back_as_they_are(value: Any) -> None:
    assert redact(value) == value


def test_an_absent_secret_is_seen_to_be_absent() -> None:
    assert redact({"token": None, "api_key": ""}) == {"token": None, "api_key": ""}
