"""Settings of a service: flags over environment over defaults; a mistake in one line each, without its secret."""

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from rollgym.common.settings import ServiceSettings, parse_settings, service_config
from rollgym.common.suggestions import did_you_mean


class PumpSettings(ServiceSettings):
    model_config = service_config("pump")

    pressure: int = 5


def parsed(*argv: str) -> PumpSettings:
    return parse_settings(PumpSettings, argv, prog="gym-pump serve", description="A pump.")


def test_flags_win_over_the_environment_and_that_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed().pressure == 5
    monkeypatch.setenv("ROLLGYM_PUMP_PRESSURE", "6")
    monkeypatch.setenv("ROLLGYM_PUMP_STOP_TIMEOUT", "3")
    assert (parsed().pressure, parsed().stop_timeout_s) == (6, 3.0)
    assert parsed("--pressure", "7").pressure == 7


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("--gc-thresholds", "100", "--gc-thresholds", "5"), {"gc_thresholds": (100, 5)}),
        (("--gc-thresholds", "null"), {"gc_thresholds": None}),
        (("--no-gc-freeze",), {"gc_freeze": False}),
        (("--port", "0", "--host", "0.0.0.0"), {"port": 0, "host": "0.0.0.0"}),
        (("--head", "http://h:1"), {"head_url": "http://h:1"}),
        (("--exit-with-parent",), {"exit_with_parent": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_flags_are_understood(argv: tuple[str, ...], expected: dict[str, Any]) -> None:
    settings = parsed(*argv)
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--presure", "3"), "did you mean --pressure?"),
        (("--port", "99999"), "--port"),
        (("--port", "http"), "http"),
        (("--stop-timeout", "0"), "--stop-timeout"),
        (("--head", "ftp://h"), "takes a URL that begins with http:// or https:// (got 'ftp://h')"),
        (("--gc-thresholds", "0"), "1 or more"),
        (("--gc-thresholds", "1", "--gc-thresholds", "2", "--gc-thresholds", "3", "--gc-thresholds", "4"), "1 to 3"),
        (("--log-level", "loud"), "info"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_line_and_exit_2(argv: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(*argv)
    error = capsys.readouterr().err
    assert end.value.code == 2
    assert said in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 2


def test_a_secret_is_never_shown(capsys: pytest.CaptureFixture[str]) -> None:
    settings = parsed("--token", "S3NT1NEL")
    assert isinstance(settings.token, SecretStr)
    assert "S3NT1NEL" not in repr(settings)
    with pytest.raises(SystemExit):
        parsed("--token", "S3NT1NEL", "--port", "x")
    assert "S3NT1NEL" not in capsys.readouterr().err


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        parsed().pressure = 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [("limt", " (did you mean limit?)"), ("entirely_else", ""), ("limit", " (did you mean limit?)")],
)
def test_a_suggestion_is_made_only_where_a_name_is_near(name: str, expected: str) -> None:
    assert did_you_mean(name, ["limit", "output"]) == expected
