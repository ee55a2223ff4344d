"""How busy the servers of a run and the machine were, second by second, read from /proc by a thread beside the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from rollgym.driver.simulate.figures import interpolated
from rollgym.driver.simulate.processes import MachineCpu, ServerProcess, machine_cpu

INTERVAL_S = 0.2


class LoadWatch:
    """Watches while it is entered; then tells about any time within."""

    def __init__(self, servers: Sequence[ServerProcess], read_machine: Callable[[], MachineCpu] = machine_cpu) -> None:
        self._servers = servers
        self._read_machine = read_machine
        self._at: list[float] = []
        self._machine: list[MachineCpu] = []
        self._used: list[list[float]] = [[] for _ in servers]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load-watch", daemon=True)

    def __enter__(self) -> LoadWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read()

    def servers_busy(self, began_at: float, ended_at: float) -> dict[str, float]:
        """CPUs that each server used between two times of the machine's clock; of replicas the busiest's."""
        busy: dict[str, float] = {}
        for server, used in zip(self._servers, self._used, strict=True):
            busy[server.name] = max(busy.get(server.name, 0.0), self._rate(used, began_at, ended_at))
        return busy

    def machine_busy(self, began_at: float, ended_at: float) -> float:
        """Share of all CPUs that was busy, whoever used them."""
        return self._share([each.busy_s for each in self._machine], began_at, ended_at)

    def machine_stolen(self, began_at: float, ended_at: float) -> float:
        """Share of all CPUs that the host of a virtual machine gave to others, when this one could have used them."""
        return self._share([each.stolen_s for each in self._machine], began_at, ended_at)

    def _share(self, values: Sequence[float], began_at: float, ended_at: float) -> float:
        capacity = self._rate([each.all_s for each in self._machine], began_at, ended_at)
        return self._rate(values, began_at, ended_at) / capacity if capacity > 0 else 0.0

    def _rate(self, values: Sequence[float], began_at: float, ended_at: float) -> float:
        used = interpolated(self._at, values, ended_at) - interpolated(self._at, values, began_at)
        return used / (ended_at - began_at) if ended_at > began_at else 0.0

    def _run(self) -> None:
        self._read()
        while not self._stop.wait(INTERVAL_S):
            self._read()

    def _read(self) -> None:
        self._at.append(time.time())
        self._machine.append(self._read_machine())
        for server, used in zip(self._servers, self._used, strict=True):
            used.append(server.cpu_s())
