"""One driver per output; what a killed one left is a name, not a lock."""

import subprocess
import sys
from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.lock import output_lock

HOLDER = """
import os, sys, pathlib
from rollgym.driver.artifacts.lock import output_lock
with output_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_driver_is_refused_and_told_which_process_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.lock"
    words = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigurationError, match=f"process {holder.pid}"), output_lock(path):
            pytest.fail("two drivers hold it")
        holder.kill()
        holder.wait()
        assert path.exists()
        with output_lock(path):
            assert path.exists()
    assert not path.exists()


def test_the_lock_goes_away_on_the_way_out_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.lock"
    with pytest.raises(KeyError), output_lock(path):
        raise KeyError
    assert not path.exists()
    with output_lock(path):
        pass
