"""`python -m benchmarks.drivers` says what is wrong with a flag before anything runs."""

from pathlib import Path

import pytest
from benchmarks.drivers.__main__ import flags

PEER_FILES = Path("lib/python3.13/site-packages/nemo_gym")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tasks", "0"], "argument --tasks: takes 1 or more, not 0"),
        (["--rounds", "0"], "argument --rounds: takes 1 or more, not 0"),
        (["--longer", "-4"], "argument --longer: takes 1 or more, not -4"),
        (["--repeats", "many"], "argument --repeats: "),
        (["--timeout-s", "0"], "argument --timeout-s: takes more than 0, not 0"),
        (["--longer", "2", "--conditions", "calm"], "--longer is compared with the saturated condition"),
        (["--profile"], "--profile takes --peer-venv"),
        (["--out", __file__], "is a file, not a folder"),
        (["--round", "2"], "unrecognized arguments: --round"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_flag_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        flags(words)
    assert said in capsys.readouterr().err


def test_a_virtual_environment_has_to_have_the_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wanting, made in (("no Python in", tmp_path / "bin" / "python"), ("no nemo-gym in", tmp_path / PEER_FILES)):
        with pytest.raises(SystemExit, match="2"):
            flags(["--peer-venv", str(tmp_path)])
        assert wanting in capsys.readouterr().err
        made.parent.mkdir(parents=True)
        made.touch()
    assert flags(["--peer-venv", str(tmp_path)]).peer_venv == tmp_path
