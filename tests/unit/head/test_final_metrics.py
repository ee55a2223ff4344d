"""The driver's last exposition: what is kept of it, and that bad text never costs a run its record."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rollgym.head.final_metrics import MAX_SAMPLES, FinalMetric, parse_exposition


def exposition() -> str:
    registry = CollectorRegistry()
    Counter("rollgym_rollouts_total", "Rollouts", ["outcome"], registry=registry).labels("succeeded").inc(200)
    Gauge("rollgym_rollouts_in_flight", "In flight", registry=registry).set(3)
    Histogram("rollgym_rollout_seconds", "Latency", buckets=(1.0,), registry=registry).observe(0.5)
    Gauge("process_open_fds", "Not ours", registry=registry).set(9)
    return generate_latest(registry).decode()


def test_own_families_are_kept_under_the_name_of_a_run() -> None:
    kept, warnings = parse_exposition(exposition())
    assert warnings == []
    values = {(metric.name, *metric.labels.values()): metric.value for metric in kept}
    assert values[("rollgym_run_rollouts_total", "succeeded")] == 200
    assert values[("rollgym_run_rollout_seconds_bucket", "1.0")] == 1
    assert not any("process" in metric.name or metric.name.endswith("_created") for metric in kept)


def test_what_is_kept_survives_the_way_to_the_disk_and_back() -> None:
    kept, _ = parse_exposition(exposition())
    assert tuple(FinalMetric.from_wire(metric.to_wire()) for metric in kept) == kept


@pytest.mark.parametrize("text", ["{", 'rollgym_x{a="', "rollgym_x one"])
def test_bad_text_is_left_out_and_said(text: str) -> None:
    kept, warnings = parse_exposition(text)
    assert kept == ()
    assert "metrics_text" in warnings[0]


@pytest.mark.parametrize("text", [None, "", "\n", "# nothing here\n"])
def test_no_text_is_no_problem(text: str | None) -> None:
    assert parse_exposition(text) == ((), [])


def test_values_that_are_no_numbers_are_left_out() -> None:
    kept, _ = parse_exposition("rollgym_a NaN\nrollgym_b +Inf\nrollgym_c 1\n")
    assert [metric.name for metric in kept] == ["rollgym_run_c"]


def test_the_number_of_samples_is_bounded() -> None:
    text = "# TYPE rollgym_x gauge\n" + "".join(f'rollgym_x{{i="{i}"}} {i}\n' for i in range(MAX_SAMPLES + 1))
    kept, warnings = parse_exposition(text)
    assert len(kept) == MAX_SAMPLES
    assert "1,001 samples" in warnings[0]
