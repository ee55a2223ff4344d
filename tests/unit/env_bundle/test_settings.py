"""The flags: repeatable ones, units, and one line for each mistake."""

import sys

import pytest

from rollgym.common.settings import parse_settings
from rollgym.env_bundle.app import create_service
from rollgym.env_bundle.cli import main
from rollgym.env_bundle.faults import FaultKind
from rollgym.env_bundle.settings import EnvBundleSettings


def parse(*argv: str) -> EnvBundleSettings:
    return parse_settings(EnvBundleSettings, argv, prog="gym-env-bundle serve", description="")


def test_defaults() -> None:
    settings = parse()
    assert (settings.port, settings.max_sessions, settings.idle_timeout_s) == (8200, None, None)
    assert (settings.admin, settings.fault, settings.max_frame_bytes) == (False, [], 32 * 1024 * 1024)


def test_faults_may_be_given_several_times() -> None:
    settings = parse("--fault", "slow-step:duration=1", "--fault", "http-503:retry_after=2")
    assert [fault.kind for fault in settings.faults] == [FaultKind.SLOW_STEP, FaultKind.HTTP_503]
    assert settings.faults[1].retry_after_s == 2


def test_flags_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLGYM_ENV_BUNDLE_MAX_SESSIONS", "5")
    monkeypatch.setenv("ROLLGYM_ENV_BUNDLE_IDLE_TIMEOUT", "7")
    settings = parse("--max-sessions", "6")
    assert (settings.max_sessions, settings.idle_timeout_s) == (6, 7.0)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["--max-sessions", "0"], "--max-sessions", id="no-sessions"),
        pytest.param(["--idle-timeout", "-1"], "--idle-timeout", id="negative-time"),
        pytest.param(["--fault", "slow-stp"], "did you mean slow-step", id="unknown-fault"),
        pytest.param(["--max-session", "1"], "did you mean --max-sessions", id="unknown-flag"),
    ],
)
def test_a_mistake_is_said_and_exits_2(capsys: pytest.CaptureFixture[str], argv: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*argv)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(["--fault", "slow-step:env=chess"], "no environment 'chess'", id="fault-elsewhere"),
        pytest.param(["--default-environment", "ecko"], "did you mean echo", id="unknown-default"),
        pytest.param(["--environment", "nowhere.py"], "no file nowhere.py", id="no-such-file"),
        pytest.param(["--environment", "no.such:Thing"], "cannot import no.such", id="no-such-module"),
    ],
)
def test_what_only_the_server_can_judge_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str], message: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["gym-env-bundle", "serve", *argv])
    assert main() == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_admin_routes_are_off_by_default() -> None:
    def paths(*argv: str) -> set[str]:
        return {getattr(route, "path", "") for route in create_service(parse(*argv)).routes}

    assert not any(path.startswith("/admin") for path in paths())
    assert {"/admin/faults", "/admin/stats"} <= paths("--admin")


def test_the_heartbeat_tells_environments_and_slots() -> None:
    service = create_service(parse("--max-sessions", "3"))
    assert service.metadata() == {"envs": ["gridsim", "wordle", "echo"], "slots": 3, "slots_in_use": 0}
