"""The head as a library: importing and building it do nothing; the command refuses mistakes in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.head.app import HeadSettings, create_app
from rollgym.head.cli import main

IMPORT_AND_COMPARE = """
import gc, logging, signal, sys, threading

def state():
    signals = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    collector = (gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks))
    return signals, collector, list(logging.getLogger().handlers), threading.active_count()

before = state()
import rollgym.head.app
assert state() == before, (before, state())
assert not {"rollgym.driver", "rollgym.resources", "uvloop", "numpy"} & set(sys.modules)
"""


def test_importing_the_application_has_no_side_effect() -> None:
    subprocess.run([sys.executable, "-c", IMPORT_AND_COMPARE], check=True, timeout=60)


def test_building_the_application_touches_no_file(tmp_path: Path) -> None:
    create_app(HeadSettings(database=str(tmp_path / "new" / "head.sqlite3")))
    assert list(tmp_path.iterdir()) == []


def test_the_history_is_kept_at_home_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert HeadSettings().database_path() == str(tmp_path / ".local/state/rollgym/head.sqlite3")
    monkeypatch.setenv("ROLLGYM_HEAD_DATABASE", "/data/head.sqlite3")
    assert HeadSettings().database_path() == "/data/head.sqlite3"


def test_a_user_without_a_home_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigurationError, match="--database"):
        HeadSettings().database_path()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "a command is needed"),
        (["sreve"], "did you mean serve?"),
        (["serve", "--prot", "1"], "did you mean --port?"),
        (["serve", "--port", "70000"], "--port"),
        (["serve", "--keep-runs", "0"], "--keep-runs"),
        (["serve", "--database", "{folder}"], "--database"),
    ],
    ids=["nothing", "typo in the command", "typo in a flag", "port", "keep", "database is a folder"],
)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_2(
    argv: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main([word.format(folder=tmp_path) for word in argv])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_help_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "gym-head serve" in capsys.readouterr().out
