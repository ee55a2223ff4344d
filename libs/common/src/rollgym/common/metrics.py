"""Metrics that every process has: its garbage collector and its event loop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PAUSE_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAG_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
WINDOW_S = 30.0


class WindowedMaximum:
    """The largest value of the last `window_s` to `2 × window_s` seconds: one stall does not stay for ever."""

    def __init__(self, window_s: float = WINDOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s, self._clock = window_s, clock
        self._slots: deque[tuple[float, float]] = deque(maxlen=2)

    def add(self, value: float) -> None:
        now = self._clock()
        if not self._slots or now - self._slots[-1][0] >= self._window_s:
            self._slots.append((now, value))
        elif value > self._slots[-1][1]:
            self._slots[-1] = (self._slots[-1][0], value)

    def value(self) -> float:
        oldest = self._clock() - 2 * self._window_s
        return max((value for begun, value in self._slots if begun >= oldest), default=0.0)


class ProcessMetrics:
    """Collections and pauses by generation, loop lag; the maxima are of about the last minute."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._collections = Counter(
            "rollgym_gc_collections_total", "Garbage collections of this process", ["generation"], registry=registry
        )
        self._pauses = Histogram(
            "rollgym_gc_pause_seconds",
            "Pause of one garbage collection",
            ["generation"],
            buckets=PAUSE_BUCKETS_S,
            registry=registry,
        )
        self._lag = Histogram(
            "rollgym_event_loop_lag_seconds",
            "How late a 10 ms sleep of the event loop woke",
            buckets=LAG_BUCKETS_S,
            registry=registry,
        )
        self._pause_max, self._lag_max = WindowedMaximum(), WindowedMaximum()
        pause_max = Gauge(
            "rollgym_gc_pause_max_seconds",
            "Longest collection pause of about the last minute",
            registry=registry,
        )
        pause_max.set_function(self._pause_max.value)
        lag_max = Gauge(
            "rollgym_event_loop_lag_seconds_max", "Longest event loop lag of about the last minute", registry=registry
        )
        lag_max.set_function(self._lag_max.value)
        for generation in ("0", "1", "2"):
            self._collections.labels(generation)
            self._pauses.labels(generation)

    def observe_pause(self, generation: int, pause_s: float) -> None:
        self._collections.labels(str(generation)).inc()
        self._pauses.labels(str(generation)).observe(pause_s)
        self._pause_max.add(pause_s)

    def observe_lag(self, lag_s: float) -> None:
        self._lag.observe(lag_s)
        self._lag_max.add(lag_s)
