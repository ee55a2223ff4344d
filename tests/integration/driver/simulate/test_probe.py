"""The probe sees a program from outside and changes nothing about how it ends."""

from pathlib import Path

import pytest

from rollgym.driver.simulate.driver_run import run_measured
from rollgym.driver.simulate.processes import SimulationError

STALLING = """
import asyncio, gc, sys, time

async def main():
    await asyncio.sleep(0.05)
    time.sleep(0.3)
    await asyncio.sleep(0.05)
    gc.collect()
    await asyncio.sleep(0.05)

gc.freeze()
gc.set_threshold(1234, 5, 6)
asyncio.run(main())
print("words", sys.argv[1:])
sys.exit(3)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(STALLING)
    return path


def test_a_stall_a_collection_and_the_exit_code_are_seen(program: Path) -> None:
    end = run_measured([str(program), "--flag", "x"], timeout_s=60)
    assert end.exit_code == 3
    assert end.printed.strip() == "words ['--flag', 'x']"
    assert max(end.seen["lag"]["lag_s"]) > 0.2
    assert 2 in end.seen["collections"]["generation"]
    assert end.seen["gc_thresholds"] == [1234, 5, 6]
    assert end.seen["gc_frozen_objects"] > 0
    assert end.seen["main_ended_s"] - end.seen["main_began_s"] > 0.4
    assert end.seen["peak_rss_mb"] > 1


def test_a_held_collector_is_pythons_own_whatever_the_program_asks(program: Path) -> None:
    untouched = run_measured(["-m", "this"], timeout_s=60)
    end = run_measured([str(program)], timeout_s=60, hold_gc=True)
    assert end.exit_code == 3
    assert end.seen["gc_thresholds"] == untouched.seen["gc_thresholds"]
    assert end.seen["gc_frozen_objects"] == 0


def test_a_program_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import time; time.sleep(600)")
    with pytest.raises(SimulationError, match="was stopped after"):
        run_measured([str(path)], timeout_s=1)
