"""Runs any Python program and measures its asyncio loop from outside: lag, CPU, collections, memory.

    python -P probe.py --out FILE [--hold-gc] (-m MODULE | SCRIPT) [ARGUMENT ...]

Nothing of the program is changed. Lag is how late a 10 ms sleep wakes on the loop of the program's first
`asyncio.run`. With --hold-gc whatever the program asks of the collector (`gc.freeze`, `gc.set_threshold`,
`gc.collect`) does nothing, so that Python's own settings hold. Only the standard library is used: the program may
live in an environment of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import runpy
import sys
import time
from array import array
from collections.abc import Coroutine
from contextvars import Context
from pathlib import Path
from typing import Any, TypeVar

INTERVAL_S = 0.01
"""Seconds that each sample sleeps. CPU clocks are read with every tenth of them."""
CLOCKS_EVERY = 10

T = TypeVar("T")

_now = time.perf_counter


class Probe:
    """What was seen of one process. Samples are kept in arrays: they give the collector nothing to scan."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self._zero = _now()
        self.main_began_s: float | None = None
        self.main_ended_s: float | None = None
        self.lag_at, self.lag_s = array("d"), array("d")
        self.clock_at, self.cpu_s = array("d"), array("d")
        self.loop_cpu_s, self.loop_wait_s = array("d"), array("d")
        self.gc_at, self.gc_s, self.gc_generation = array("d"), array("d"), array("b")
        self._gc_began = 0.0
        self._watched = False

    def seconds(self) -> float:
        return _now() - self._zero

    def install(self) -> None:
        """Watch the collector from now on, and the loop of the first `asyncio.run`."""
        gc.callbacks.append(self.on_collection)
        run = asyncio.Runner.run

        def watched(runner: asyncio.Runner, coro: Coroutine[Any, Any, T], *, context: Context | None = None) -> T:
            if self._watched:
                return run(runner, coro, context=context)
            self._watched = True
            return run(runner, self._main(coro), context=context)

        asyncio.Runner.run = watched  # type: ignore[method-assign, assignment]  # every program goes through here

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_began = _now()
            return
        ended = _now()
        self.gc_at.append(ended - self._zero)
        self.gc_s.append(ended - self._gc_began)
        self.gc_generation.append(info["generation"])

    async def _main(self, coro: Coroutine[Any, Any, T]) -> T:
        watcher = asyncio.create_task(self._watch(), name="probe")
        self._read_clocks()
        self.main_began_s = self.seconds()
        try:
            return await coro
        finally:
            self.main_ended_s = self.seconds()
            self._read_clocks()
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def _watch(self) -> None:
        sample = 0
        while True:
            before = _now()
            await asyncio.sleep(INTERVAL_S)
            woken = _now()
            self.lag_at.append(woken - self._zero)
            self.lag_s.append(max(0.0, woken - before - INTERVAL_S))
            sample += 1
            if sample % CLOCKS_EVERY == 0:
                self._read_clocks()

    def _read_clocks(self) -> None:
        self.clock_at.append(self.seconds())
        self.cpu_s.append(time.process_time() + children_cpu_s())
        self.loop_cpu_s.append(time.thread_time())
        self.loop_wait_s.append(thread_wait_s())

    def report(self) -> dict[str, Any]:
        """Everything as JSON; times are seconds since `started_at`, which is of the machine's clock."""
        return {
            "started_at": self.started_at,
            "main_began_s": self.main_began_s,
            "main_ended_s": self.main_ended_s,
            "python": sys.version.split()[0],
            "gc_thresholds": list(gc.get_threshold()),
            "gc_frozen_objects": gc.get_freeze_count(),
            "peak_rss_mb": peak_rss_mb(),
            "cpu_s": time.process_time() + children_cpu_s(),
            "lag": {"at_s": list(self.lag_at), "lag_s": list(self.lag_s)},
            "clocks": {
                "at_s": list(self.clock_at),
                "cpu_s": list(self.cpu_s),
                "loop_cpu_s": list(self.loop_cpu_s),
                "loop_wait_s": list(self.loop_wait_s),
            },
            "collections": {
                "at_s": list(self.gc_at),
                "pause_s": list(self.gc_s),
                "generation": list(self.gc_generation),
            },
        }


def children_cpu_s() -> float:
    """CPU of child processes that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def thread_wait_s() -> float:
    """Seconds for which this thread could have run and no CPU was free; 0 where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def peak_rss_mb() -> float:
    """Highest resident memory of this program. (`ru_maxrss` also remembers the process that started it.)"""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def hold_collector() -> None:
    """From now on nobody but Python itself decides about the collector."""

    def nothing(*_: object, **__: object) -> int:
        return 0

    for name in ("freeze", "set_threshold", "collect"):
        setattr(gc, name, nothing)


def main() -> None:
    words = sys.argv[1:]
    out = Path(words[words.index("--out") + 1])
    del words[words.index("--out") : words.index("--out") + 2]
    probe = Probe()
    if words[0] == "--hold-gc":
        words.pop(0)
        hold_collector()
    probe.install()
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    finally:
        gc.callbacks.remove(probe.on_collection)
        out.write_text(json.dumps(probe.report()))


if __name__ == "__main__":
    main()
