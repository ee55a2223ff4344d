"""The driver's Prometheus metrics. Labels are bounded sets; no task, rollout or session id is among them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rollgym.driver.ledger import Ledger, RolloutState
from rollgym.driver.outcomes import Failed, Succeeded, bounded_class
from rollgym.driver.policies.usage import Usage

ROLLOUT_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
CALL_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class DriverMetrics:
    """Rollouts, model and tool calls, tokens. Also the observer of the built-in agent.

    What is in flight and what is owed is asked of the run's ledger when somebody looks.
    """

    def __init__(self, registry: CollectorRegistry, ledger: Ledger) -> None:
        rollouts = Counter(
            "rollgym_rollouts_total",
            "Rollouts that reached an end in this process, by outcome",
            ["outcome"],
            registry=registry,
        )
        self._failed_attempts = Counter(
            "rollgym_failed_attempts_total",
            "Attempts that failed, by failure class",
            ["failure_class"],
            registry=registry,
        )
        in_flight = Gauge("rollgym_rollouts_in_flight", "Rollouts being run now", registry=registry)
        in_flight.set_function(lambda: ledger.count(RolloutState.IN_FLIGHT))
        pending = Gauge("rollgym_rollouts_pending", "Rollouts that are still owed", registry=registry)
        pending.set_function(lambda: len(ledger) - ledger.done)
        self._seconds = Histogram(
            "rollgym_rollout_seconds", "Dispatch to end of a rollout", buckets=ROLLOUT_BUCKETS_S, registry=registry
        )
        self._admission = Histogram(
            "rollgym_admission_wait_seconds", "Wait for a free slot", buckets=ROLLOUT_BUCKETS_S, registry=registry
        )
        self._drained = Counter(
            "rollgym_rollouts_drained_total", "Rollouts not started for lack of budget", registry=registry
        )
        self._tokens = Counter("rollgym_tokens_total", "Tokens that models reported", ["kind"], registry=registry)
        self._unreported = Counter(
            "rollgym_model_calls_without_usage_total", "Model calls that reported no tokens", registry=registry
        )
        self._model = Histogram(
            "rollgym_model_call_seconds", "One model call, retries included", buckets=CALL_BUCKETS_S, registry=registry
        )
        self._tool = Histogram("rollgym_tool_call_seconds", "One tool call", buckets=CALL_BUCKETS_S, registry=registry)
        self._session = Histogram(
            "rollgym_session_wait_seconds", "Seeding a session", buckets=CALL_BUCKETS_S, registry=registry
        )
        self._slow = Counter(
            "rollgym_event_loop_slow_callback_seconds",
            "Seconds in sections that held the event loop for over 50 ms",
            ["phase"],
            registry=registry,
        )
        outcomes = ("succeeded", "masked", "failed", "drained", "cancelled")
        self._ended = {outcome: rollouts.labels(outcome) for outcome in outcomes}

    def succeeded(self, outcome: Succeeded) -> None:
        self._ended["masked" if outcome.facts.masked else "succeeded"].inc()
        self._seconds.observe(outcome.timings.rollout_s)
        self._admission.observe(outcome.timings.admission_s)

    def attempt_failed(self, outcome: Failed) -> None:
        self._failed_attempts.labels(bounded_class(outcome.failure_class)).inc()
        self._admission.observe(outcome.timings.admission_s)

    def failed_for_good(self) -> None:
        self._ended["failed"].inc()

    def drained(self) -> None:
        self._drained.inc()
        self._ended["drained"].inc()

    def cancelled(self) -> None:
        self._ended["cancelled"].inc()

    def slow_section(self, phase: str, seconds: float) -> None:
        self._slow.labels(phase).inc(seconds)

    def model_called(self, duration_s: float, usage: Usage | None, error: str | None) -> None:
        self._model.observe(duration_s)
        if usage is None:
            self._unreported.inc()
            return
        for kind, count in (
            ("prompt", usage.input_tokens),
            ("cached_prompt", usage.cached_tokens),
            ("completion", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            if count is not None:
                self._tokens.labels(kind).inc(count)

    def tool_called(self, duration_s: float, status: str) -> None:
        self._tool.observe(duration_s)

    def session_opened(self, wait_s: float) -> None:
        self._session.observe(wait_s)
