"""The head's own gauges, and the last values of the most recent runs: what a driver measured outlives the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rollgym.common.failures import FailureClass
from rollgym.head.registry import Registry
from rollgym.head.run_history import RunHistory
from rollgym.head.run_records import RunRecord, RunState

_QUANTILES = {"p50": "0.5", "p90": "0.9", "p99": "0.99", "max": "1"}
_FAILURE_CLASSES = frozenset(kind.value for kind in FailureClass)


def register_metrics(registry: CollectorRegistry, servers: Registry, history: RunHistory) -> None:
    """Add the head's metrics to a process's registry."""
    registry.register(_HeadMetrics(servers, history))
    registry.register(RunMetrics(lambda: history.recent, history.now))


class _HeadMetrics(Collector):
    def __init__(self, servers: Registry, history: RunHistory) -> None:
        self._servers, self._history = servers, history

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("rollgym_head_servers", "Servers that the head knows, by status", labels=["status"])
        for status, count in self._servers.count_by_status().items():
            family.add_metric([status], count)
        yield family
        yield GaugeMetricFamily(
            "rollgym_head_event_streams", "Event streams open at the head", value=self._history.streams.open
        )


class RunMetrics(Collector):
    """`rollgym_run_*` of the runs that `recent` gives: bounded, so `run_id` may be a label here and nowhere else.

    `rollgym_run_state{state}` is 1 for the state a run is in: running, lost (died without a word), or how it ended.
    """

    def __init__(self, recent: Callable[[], Sequence[RunRecord]], now: Callable[[], float]) -> None:
        self._recent, self._now = recent, now

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        runs, now = self._recent(), self._now()
        own = [_info(runs), _states(runs, now), *_times(runs), _rollouts(runs, now), *_figures(runs), _failures(runs)]
        yield from own
        yield from _handed_over(runs, now, taken={family.name for family in own})


def _info(runs: Sequence[RunRecord]) -> Metric:
    family = GaugeMetricFamily("rollgym_run_info", "One per run: its name and host", labels=["run_id", "name", "host"])
    for run in runs:
        family.add_metric([run.run_id, run.report.name, run.report.host], 1)
    return family


def _states(runs: Sequence[RunRecord], now: float) -> Metric:
    family = GaugeMetricFamily("rollgym_run_state", "1 for the state that the run is in", labels=["run_id", "state"])
    for run in runs:
        for state in RunState:
            family.add_metric([run.run_id, state.value], float(run.state(now) is state))
    return family


def _times(runs: Sequence[RunRecord]) -> Iterator[Metric]:
    yield _gauge(
        "rollgym_run_started_timestamp_seconds", "When the run started", runs, lambda run: run.report.started_at
    )
    yield _gauge("rollgym_run_ended_timestamp_seconds", "When the run ended", runs, lambda run: run.report.ended_at)
    yield _gauge("rollgym_run_updated_timestamp_seconds", "Last word of the run", runs, lambda run: run.updated_at)


def _rollouts(runs: Sequence[RunRecord], now: float) -> Metric:
    family = GaugeMetricFamily(
        "rollgym_run_rollouts_by_state", "Rollouts of the run by state, as last reported", labels=["run_id", "state"]
    )
    for run in runs:
        for state, count in run.report.counts.model_dump().items():
            # What a dead driver had in flight is in flight no more; what became of it nobody knows.
            if count is not None and not (state == "in_flight" and run.state(now) is RunState.LOST):
                family.add_metric([run.run_id, state], count)
    return family


def _figures(runs: Sequence[RunRecord]) -> Iterator[Metric]:
    yield _gauge("rollgym_run_owed", "Rollouts that the run owes", runs, lambda run: run.report.owed)
    yield _gauge("rollgym_run_scored", "Rollouts that the reward mean is over", runs, lambda run: run.scored)
    yield _gauge(
        "rollgym_run_reward_mean", "Mean reward over the scored rollouts", runs, lambda run: run.report.reward_mean
    )
    yield _gauge("rollgym_run_rollouts_per_hour", "Rows per hour", runs, lambda run: run.report.rollouts_per_hour)
    family = GaugeMetricFamily(
        "rollgym_run_latency_seconds", "Wall time of a rollout (quantile 1: the longest)", labels=["run_id", "quantile"]
    )
    for run in runs:
        for name, value in (run.report.latency_s.model_dump() if run.report.latency_s else {}).items():
            if value is not None:
                family.add_metric([run.run_id, _QUANTILES[name]], value)
    yield family


def _failures(runs: Sequence[RunRecord]) -> Metric:
    family = GaugeMetricFamily("rollgym_run_failures", "Failed rollouts by class", labels=["run_id", "failure_class"])
    for run in runs:
        counted: dict[str, int] = {}
        for kind, count in run.report.failures.items():
            known = kind if kind in _FAILURE_CLASSES else "other"
            counted[known] = counted.get(known, 0) + count
        for kind, count in counted.items():
            family.add_metric([run.run_id, kind], count)
    return family


def _handed_over(runs: Sequence[RunRecord], now: float, taken: set[str]) -> Iterator[Metric]:
    """What drivers handed over at their end, one family for all runs; gauges of work in flight ended with the run."""
    families: dict[str, Metric] = {}
    for run in runs:
        ended = run.state(now) is not RunState.RUNNING
        for sample in run.metrics:
            if sample.family in taken or (ended and sample.family.endswith(("_in_flight", "_waiting"))):
                continue
            family = families.setdefault(sample.family, Metric(sample.family, sample.help, sample.kind))
            if family.type == sample.kind:
                family.add_sample(sample.name, {**sample.labels, "run_id": run.run_id}, sample.value)
    yield from families.values()


def _gauge(name: str, text: str, runs: Sequence[RunRecord], value: Callable[[RunRecord], float | None]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["run_id"])
    for run in runs:
        if (number := value(run)) is not None:
            family.add_metric([run.run_id], number)
    return family
