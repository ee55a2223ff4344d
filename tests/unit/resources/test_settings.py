"""Settings: flags and variables, defaults, and what is refused before anything starts."""

import pytest

from rollgym.common.settings import parse_settings
from rollgym.resources.rewards import RewardMode
from rollgym.resources.settings import ResourcesSettings


def parsed(*argv: str) -> ResourcesSettings:
    return parse_settings(ResourcesSettings, argv, prog="gym-resources serve", description="")


def test_defaults() -> None:
    found = parsed()
    assert (found.port, found.patience, found.connect_timeout_s, found.step_timeout_s, found.idle_timeout_s) == (
        8300, 600.0, 10.0, 600.0, 600.0,
    )  # fmt: skip
    assert (found.masked_as_error, found.failed_seed, found.max_sessions, found.tools_over_mcp) == (
        False, "error", None, False,
    )  # fmt: skip
    assert found.pong_timeout_s == found.step_timeout_s


def test_every_flag_of_the_manual() -> None:
    found = parsed(
        "--env", "gridsim=http://h:1/gridsim", "--env", "echo=http://h:1/echo", "--patience", "5", "--connect-timeout",
        "2", "--step-timeout", "3", "--idle-timeout", "4", "--max-sessions", "7", "--masked-as-error", "--failed-seed",
        "mask", "--reward-mode", "gridsim=last", "--env-session-timeout", "echo=60", "--ping-interval", "0",
    )  # fmt: skip
    assert (found.patience, found.connect_timeout_s, found.step_timeout_s, found.idle_timeout_s) == (5, 2, 3, 4)
    assert (found.max_sessions, found.masked_as_error, found.failed_seed) == (7, True, "mask")
    gridsim, echo = found.environments()
    assert (gridsim.reward_mode, gridsim.session_timeout_s) == (RewardMode.LAST, None)
    assert (echo.reward_mode, echo.session_timeout_s) == (RewardMode.SUM, 60.0)


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLGYM_RESOURCES_ENV", '{"echo": "http://h:1/echo"}')
    monkeypatch.setenv("ROLLGYM_RESOURCES_PATIENCE", "7")
    assert (parsed().env, parsed().patience) == ({"echo": "http://h:1/echo"}, 7.0)
    assert parsed("--patience", "8").patience == 8.0


def test_patience_is_the_reset_timeout_unless_said() -> None:
    assert parsed("--reset-timeout", "30").patience == 30.0
    assert parsed("--patience", "0").patience == 0.0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        pytest.param(["--env", "x=ftp://h"], "no URL of an environment server", id="a URL of another kind"),
        pytest.param(["--env", "x=http://"], "names no host", id="no host"),
        pytest.param(["--patience", "-1"], "greater than or equal to 0", id="negative patience"),
        pytest.param(["--idle-timeout", "0"], "greater than 0", id="no idle time"),
        pytest.param(["--reward-mode", "x=last"], "reward_mode names x, which no --env gives", id="mode of nothing"),
        pytest.param(["--env", "x=http://h", "--reward-mode", "x=mean"], "'sum', 'last' or 'max'", id="unknown mode"),
        pytest.param(["--env-session-timeout", "y=3"], "no --env gives", id="timeout of nothing"),
        pytest.param(["--ping-timeout", "5"], "shorter than step_timeout", id="pings that end long steps"),
        pytest.param(["--workers", "4"], "run one worker", id="several workers"),
        pytest.param(["--signing-key", "short"], "16 characters", id="short key"),
        pytest.param(["--failed-seed", "maybe"], "'error' or 'mask'", id="failed seed"),
        pytest.param(["--pateince", "4"], "did you mean --patience", id="typo"),
        pytest.param(["--max-sessions", "0"], "greater than or equal to 1", id="no sessions"),
    ],
)
def test_mistakes_are_told_in_one_line_and_exit_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*argv)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_the_signing_key_is_never_shown() -> None:
    assert "0123456789abcdef" not in repr(parsed("--signing-key", "0123456789abcdef"))
