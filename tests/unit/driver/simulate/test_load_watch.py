"""What a run's machine did meanwhile, of which a part may have been its host's."""

import threading
import time
from pathlib import Path

import pytest

from rollgym.driver.simulate.load_watch import LoadWatch
from rollgym.driver.simulate.processes import MachineCpu, machine_cpu


def test_the_machines_cpu_times_are_read_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    stat = tmp_path / "stat"  # user nice system idle iowait irq softirq steal guest guest_nice
    stat.write_text("cpu  1000 200 300 4000 500 60 40 900 7 8\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    assert machine_cpu(stat) == MachineCpu(busy_s=25.0, stolen_s=9.0, all_s=70.0)
    assert machine_cpu(tmp_path / "elsewhere") == MachineCpu(0.0, 0.0, 0.0)


def test_shares_are_of_all_cpus() -> None:
    """Two CPUs, one of them busy, a quarter of that for others."""
    began_at, readings, read_again = time.time(), 0, threading.Event()

    def cpu() -> MachineCpu:
        nonlocal readings
        readings += 1
        if readings == 2:
            read_again.set()
        now = time.time()
        return MachineCpu(busy_s=now, stolen_s=now / 4, all_s=2 * now)

    with LoadWatch([], cpu) as load:
        assert read_again.wait(10)
    ended_at = time.time()
    assert load.machine_busy(began_at, ended_at) == pytest.approx(0.5, rel=0.01)
    assert load.machine_stolen(began_at, ended_at) == pytest.approx(0.125, rel=0.01)
