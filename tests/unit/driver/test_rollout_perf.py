"""`ng_perf` and the latency of dispatch, as tables of cases."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rollgym.driver.rollout_perf import (
    NG_PERF_KEY,
    DispatchLatencyTracker,
    _attach_ng_perf,
    _build_ng_perf,
    logger,
    read_trajectory,
)

REF = {"type": "responses_api_models", "name": "m"}


def call(call_id: str | None = None, response_id: str | None = None, ref: Any = REF, **tokens: int) -> dict[str, Any]:
    metadata = {"response_id": response_id, "model_ref": ref} if response_id else {}
    return {"model_call_id": call_id, "response_metadata": metadata, "token_stats": tokens}


def invocation(name: str = "i", *refs: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    return {"invocation_id": name, "parent_invocation_id": parent, "model_calls": list(refs)}


def by_id(name: str) -> dict[str, Any]:
    return {"model_call_id": name}


def by_response(name: str, ref: Any = REF) -> dict[str, Any]:
    return {"model_ref": ref, "response_id": name}


def perf(*invocations: Any, calls: Any = (), turns: Any = (), tools: Any = (), latency_ms: float | None = 5.0) -> Any:
    trajectory = {
        "invocations": list(invocations),
        "model_calls": list(calls),
        "turns": [{"invocation_id": name} for name in turns],
        "tool_calls": [{"invocation_id": name} for name in tools],
    }
    return _build_ng_perf({"ng_trajectory": trajectory}, latency_ms)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            perf(invocation("i", by_id("a")), calls=[call("a", prompt_tokens=10, completion_tokens=5)]),
            {"num_turns": 1, "token_observability_coverage": 1.0, "prompt_tokens": 10, "completion_tokens": 5},
            id="matched-by-id",
        ),
        pytest.param(
            perf(invocation("i", by_response("r")), calls=[call("a", "r", prompt_tokens=10)]),
            {"num_turns": 1, "token_observability_coverage": 1.0, "prompt_tokens": 10},
            id="matched-by-model-and-response",
        ),
        pytest.param(
            perf(
                invocation("i", {**by_id("a"), **by_response("other")}),
                calls=[call("a", "r", prompt_tokens=10), call("b", "other", prompt_tokens=99)],
            ),
            {"num_turns": 1, "token_observability_coverage": 0.0},
            id="id-and-response-in-conflict",
        ),
        pytest.param(
            perf(invocation("i", by_id("a")), invocation("j", by_id("a")), calls=[call("a", prompt_tokens=10)]),
            {"num_turns": 2, "token_observability_coverage": 0.5, "prompt_tokens": 10},
            id="claimed-twice-counted-once",
        ),
        pytest.param(
            perf(invocation("i", by_id("a"), by_response("r")), calls=[call("a", "r", prompt_tokens=10)]),
            {"num_turns": 1, "token_observability_coverage": 1.0, "prompt_tokens": 10},
            id="referenced-twice-by-one-counted-once",
        ),
        pytest.param(
            perf(
                invocation("i", by_id("a"), by_id("b")),
                calls=[call("a", prompt_tokens=1), call("a", prompt_tokens=2), call("b", prompt_tokens=4)],
                turns=["i", "i"],
            ),
            {"num_turns": 2, "token_observability_coverage": 0.5, "prompt_tokens": 4},
            id="ambiguous-match-dropped",
        ),
        pytest.param(
            perf(invocation("i", by_id("nowhere")), calls=[call("a", prompt_tokens=1)]),
            {"num_turns": 1, "token_observability_coverage": 0.0},
            id="unmatched-reference",
        ),
        pytest.param(
            perf(invocation("i"), calls=[call("a", prompt_tokens=1)]),
            {"num_turns": 1, "token_observability_coverage": 0.0},
            id="a-call-that-nobody-references",
        ),
        pytest.param(
            perf(invocation("i", by_id("a"), by_id("b")), calls=[call("a"), call("b")], turns=["i", "i", "i"]),
            {"num_turns": 3, "token_observability_coverage": 2 / 3},
            id="turns-from-records",
        ),
        pytest.param(
            perf(invocation("i", by_id("a"), by_id("b")), calls=[call("a"), call("b")]),
            {"num_turns": 2, "token_observability_coverage": 1.0},
            id="turns-from-owned-calls",
        ),
        pytest.param(
            perf(
                invocation("i"),
                invocation("j", by_id("a"), by_id("b"), parent="i"),
                invocation("k"),
                calls=[call("a"), call("b")],
                turns=["k", "k", "k"],
            ),
            {"num_turns": 1 + 2 + 3, "token_observability_coverage": 2 / 6},
            id="turns-mixed-across-invocations",
        ),
        pytest.param(
            perf(
                invocation("i", by_id("a"), by_id("compaction")),
                calls=[call("a", prompt_tokens=10), call("compaction", prompt_tokens=90)],
                turns=["i"],
            ),
            {"num_turns": 1, "token_observability_coverage": 1.0, "prompt_tokens": 100},
            id="compaction-counted-when-listed-coverage-at-most-1",
        ),
        pytest.param(
            perf(
                invocation("i", by_id("a"), by_id("b")),
                calls=[call("a", prompt_tokens=9, cached_tokens=0), call("b", completion_tokens=3, reasoning_tokens=2)],
            ),
            {
                "num_turns": 2, "token_observability_coverage": 1.0, "prompt_tokens": 9, "cached_prompt_tokens": 0,
                "completion_tokens": 3, "reasoning_tokens": 2,
            },
            id="each-sum-over-those-that-reported",
        ),
        pytest.param(
            perf(invocation("i"), tools=["i", "i", "elsewhere", None]),
            {"num_turns": 1, "num_tool_calls": 2, "token_observability_coverage": 0.0},
            id="tool-calls-of-known-invocations",
        ),
    ],
)  # fmt: skip
def test_a_rollouts_performance(found: Any, expected: dict[str, Any]) -> None:
    assert found == {"num_tool_calls": 0, "total_latency_ms": 5.0, **expected}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(perf(), id="no-invocation"),
        pytest.param(_build_ng_perf({}, 5.0), id="no-trajectory"),
        pytest.param(_build_ng_perf({"ng_trajectory": "text"}, 5.0), id="trajectory-a-text"),
        pytest.param(_build_ng_perf({"ng_trajectory": {"invocations": "x"}}, 5.0), id="invocations-a-text"),
        pytest.param(perf({"parent_invocation_id": "i"}), id="invocation-without-id"),
        pytest.param(perf(invocation("i"), invocation("i")), id="duplicate-ids"),
        pytest.param(perf(invocation("i", parent="j"), invocation("j", parent="i")), id="cyclic-parents"),
        pytest.param(perf(invocation("i", parent="i")), id="its-own-parent"),
        pytest.param(perf(invocation("i", by_id("a")), calls=[call("a", prompt_tokens=-1)]), id="negative-tokens"),
    ],
)
def test_wrong_or_missing_evidence_gives_none(found: Any) -> None:
    assert found is None


def test_latency_is_absent_when_it_is_not_known() -> None:
    assert "total_latency_ms" not in perf(invocation("i"), latency_ms=None)
    assert perf(invocation("i"), latency_ms=0.0)["total_latency_ms"] == 0.0


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_attached_only_where_observability_is_on(enabled: bool) -> None:
    result: dict[str, Any] = {"ng_trajectory": {"invocations": [invocation("i")]}}
    _attach_ng_perf(result, enabled, 5.0)
    assert (NG_PERF_KEY in result) is enabled


def test_nothing_is_attached_where_nothing_was_seen() -> None:
    result: dict[str, Any] = {"ng_trajectory": {"invocations": []}}
    _attach_ng_perf(result, True)
    assert NG_PERF_KEY not in result
    assert logger is not None


Story = Callable[[DispatchLatencyTracker], None]


def told(*events: tuple[str, float]) -> DispatchLatencyTracker:
    tracker = DispatchLatencyTracker()
    for event, seconds in events:
        {"ok": tracker.record, "failed": tracker.record_failure}[event](seconds)
    return tracker


@pytest.mark.parametrize(
    ("events", "count"),
    [
        pytest.param([("failed", 0.1)], 0, id="a-failure-before-any-success"),
        pytest.param([("failed", 99.0)], 0, id="a-slow-failure-before-any-success"),
        pytest.param([("ok", 10.0), ("failed", 9.9)], 1, id="a-failure-shorter-than-the-median"),
        pytest.param([("ok", 10.0), ("failed", 10.0)], 2, id="a-failure-as-long-as-the-median"),
        pytest.param([("ok", 10.0), ("failed", 50.0)], 2, id="a-failure-longer-than-the-median"),
        pytest.param([("ok", 0.0), ("ok", -5.0)], 0, id="no-duration"),
        pytest.param([("ok", 0.0), ("failed", 5.0)], 0, id="no-duration-is-no-success"),
    ],
)
def test_what_counts_as_a_latency(events: list[tuple[str, float]], count: int) -> None:
    assert told(*events).count == count


@pytest.mark.parametrize(
    ("finished", "configured", "margin"),
    [
        pytest.param([1.0, 2.0, 3.0, 4.0], None, None, id="four-are-too-few"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], None, 4.0, id="p75-of-exactly-five"),
        pytest.param([5.0, 1.0, 4.0, 2.0, 3.0], None, 4.0, id="in-any-order"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], 7.5, 7.5, id="an-explicit-margin-wins"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], 0.0, 0.0, id="an-explicit-zero-wins"),
        pytest.param([], 3.0, 3.0, id="an-explicit-margin-from-the-start"),
    ],
)
def test_the_drain_margin(finished: list[float], configured: float | None, margin: float | None) -> None:
    assert told(*(("ok", seconds) for seconds in finished)).drain_margin(configured) == margin


def test_the_summary_says_percentiles_beside_task_hours_and_what_was_drained() -> None:
    tracker = told(*[("ok", 3600.0)] * 4)
    assert "median 60.0 min" in tracker.summary()
    assert "4.0 task-hours" in tracker.summary()
    assert "rained" not in tracker.summary()
    tracker.record_drained()
    tracker.record_drained()
    assert tracker.drained == 2
    assert "Drained (no time left to start them): 2. They will be dispatched on resume." in tracker.summary()


def test_the_summary_of_nothing_says_so() -> None:
    assert "no latency to report" in DispatchLatencyTracker().summary()
    assert DispatchLatencyTracker().quantile(0.5) is None


def test_asking_before_every_dispatch_stays_cheap_at_a_hundred_thousand() -> None:
    tracker = told(*[("ok", 1.0 + n % 1000) for n in range(100_000)])
    assert tracker.count == 100_000
    assert tracker.drain_margin(None) == pytest.approx(750, rel=0.02)


def read(*invocations: dict[str, Any], calls: list[dict[str, Any]] | None = None) -> list[tuple[str, str | None]]:
    trajectory = json.dumps({"invocations": invocations, "model_calls": calls or []}).encode()
    return [(gap.code, gap.invocation_id) for gap in read_trajectory(trajectory, 5.0).gaps]


RESPONSE = {"response_id": "r", "model_ref": {"type": "t", "name": "m"}}


@pytest.mark.parametrize(
    ("found", "gaps"),
    [
        pytest.param(read(invocation("i", by_id("a")), calls=[call("a")]), [], id="matched"),
        pytest.param(read(invocation("i", by_id("b")), calls=[call("a")]),
                     [("model_call_reference_unmatched", "i")], id="unmatched"),
        pytest.param(read(invocation("i", {}), calls=[call("a")]),
                     [("model_call_reference_unmatched", "i")], id="without-an-id"),
        pytest.param(read(invocation("i", by_id("a")), calls=[call("a"), call("a")]),
                     [("model_call_reference_ambiguous", "i")], id="ambiguous"),
        pytest.param(read(invocation("i", {**by_id("a"), "response_id": "other"}),
                          calls=[{"model_call_id": "a", "response_metadata": RESPONSE}]),
                     [("model_call_reference_conflict", "i")], id="conflicting-ids"),
        pytest.param(read(invocation("i", by_id("a")), invocation("j", by_id("a")), calls=[call("a")]),
                     [("model_call_reference_conflict", "j")], id="claimed-by-two"),
        pytest.param(read(invocation("i"), invocation("i")), [("invocation_id_duplicate", "i")], id="duplicate"),
        pytest.param(read(invocation("i", parent="j"), invocation("j", parent="i")),
                     [("invocation_parent_cycle", "i"), ("invocation_parent_cycle", "j")], id="cycle"),
        pytest.param(read(invocation("i", by_id("a")), calls=[call("a", prompt_tokens=-1)]),
                     [("token_stats_negative", None)], id="negative-tokens"),
        pytest.param(read({"parent_invocation_id": "i"}), [("trajectory_invalid", None)], id="invalid"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_becomes_a_gap(found: list[Any], gaps: list[Any]) -> None:
    assert found == gaps
