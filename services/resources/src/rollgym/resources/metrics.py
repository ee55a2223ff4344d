"""The metrics of a resources server. Labels are bounded sets; gauges move through context managers or one owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

OPEN_BUCKETS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600)
CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600)


class ResourcesMetrics:
    """Declared once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sessions_open = Gauge(
            "rollgym_sessions_open", "Sessions that hold an episode on an environment server", registry=registry
        )
        self.sessions_waiting = Gauge("rollgym_sessions_waiting", "Clients waiting for a session", registry=registry)
        self.session_open_seconds = Histogram(
            "rollgym_session_open_seconds",
            "Seconds from a seed to its open session, waiting included",
            buckets=OPEN_BUCKETS,
            registry=registry,
        )
        self.session_open_attempts = Counter(
            "rollgym_session_open_attempts", "Attempts to open a session", ["outcome"], registry=registry
        )
        self.sessions_closed = Counter("rollgym_sessions_closed", "Sessions that ended", ["reason"], registry=registry)
        self.verify = Counter("rollgym_verify", "Verifies answered", ["outcome"], registry=registry)
        self.tool_call_seconds = Histogram(
            "rollgym_tool_call_seconds",
            "Seconds that a tool call took, its queue included",
            buckets=CALL_BUCKETS,
            registry=registry,
        )
        for outcome in ("opened", "busy", "wrong"):
            self.session_open_attempts.labels(outcome)
        for reason in ("verified", "closed", "reclaimed", "abandoned", "lost", "never_opened", "shutdown"):
            self.sessions_closed.labels(reason)
        for outcome in ("scored", "masked", "invalid_reward"):
            self.verify.labels(outcome)
        self._tool_calls = self.tool_call_seconds.observe

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with self.sessions_waiting.track_inprogress():
            yield

    def opened(self, waited_s: float) -> None:
        self.session_open_seconds.observe(waited_s)

    def attempted(self, outcome: str) -> None:
        self.session_open_attempts.labels(outcome).inc()

    def episode_held(self) -> None:
        self.sessions_open.inc()

    def episode_let_go(self) -> None:
        self.sessions_open.dec()

    def session_ended(self, reason: str) -> None:
        self.sessions_closed.labels(reason).inc()

    def verified(self, outcome: str) -> None:
        self.verify.labels(outcome).inc()

    def called(self, seconds: float) -> None:
        self._tool_calls(seconds)
