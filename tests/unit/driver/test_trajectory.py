"""`ng_trajectory`: what is recorded, and what only on request."""

from dataclasses import replace
from typing import Any

import pytest

from rollgym.common import jsonx
from rollgym.driver.policies import CallClock, CallTiming, ModelTurn, Usage
from rollgym.driver.policies.items import assistant_message, function_call
from rollgym.driver.trajectory import ToolEvent, TrajectoryRecorder

QUESTION = [b'{"role":"user","content":"q"}']
REASONING = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}


def model_turn(*items: dict[str, Any], usage: Usage | None = None, ttft_s: float | None = None) -> ModelTurn:
    made = ModelTurn.of(items, model="m", response_id="resp", clock=CallClock(), usage=usage)
    return ModelTurn(
        response=made.response,
        output=made.output,
        finish="completed",
        timing=CallTiming(100.0, 0.25, ttft_s),
        usage=usage,
        model="m",
        response_id="resp",
        request=b'{"model":"m"}',
        status_code=200,
        finish_reason="stop",
    )


def tool_event(call_id: str, *, status: Any = "completed") -> ToolEvent:
    return ToolEvent(call_id, "weather", CallTiming(100.3, 0.1), status, "sunny")


def recorded(**settings: Any) -> dict[str, Any]:
    recorder = TrajectoryRecorder("7", "7-0", **settings)
    recorder.turn(
        QUESTION, model_turn(REASONING, function_call("weather", "{}", "c1", "f1"), usage=Usage(9, 3, 2, 1, 11))
    )
    recorder.tools([tool_event("c1"), tool_event("c2", status="failed")])
    recorder.turn(QUESTION, model_turn(assistant_message("done", "m1"), ttft_s=0.02))
    encoded = recorder.build([*QUESTION, b'{"role":"assistant","content":"done"}'], "completed", 1.5)
    assert encoded is not None
    trajectory: dict[str, Any] = jsonx.loads(encoded)
    return trajectory


def test_turns_count_from_one_and_reference_their_calls() -> None:
    trajectory = recorded()
    assert [(turn["turn_no"], turn["step_count"]) for turn in trajectory["turns"]] == [(1, 2), (2, 2)]
    calls = [call["model_call_id"] for call in trajectory["model_calls"]]
    assert len(set(calls)) == 2
    assert [turn["model_calls"][0]["model_call_id"] for turn in trajectory["turns"]] == calls
    (invocation,) = trajectory["invocations"]
    assert [reference["model_call_id"] for reference in invocation["model_calls"]] == calls
    assert (invocation["status"], invocation["duration_ms"]) == ("completed", 1500.0)


def test_reasoning_stands_apart_from_the_answer() -> None:
    first, second = recorded()["turns"]
    assert [item["type"] for item in first["answer"]] == ["function_call"]
    assert first["reasoning_content"] == [REASONING]
    assert second["reasoning_content"] is None


def test_tokens_that_nobody_reported_are_absent_and_named_as_a_gap() -> None:
    trajectory = recorded()
    told, untold = (call["token_stats"] for call in trajectory["model_calls"])
    assert told == {
        "prompt_tokens": 9,
        "cached_tokens": 3,
        "completion_tokens": 2,
        "reasoning_tokens": 1,
        "total_tokens": 11,
    }
    assert untold == {}
    assert [(gap["code"], gap["detail"]) for gap in trajectory["gaps"]] == [("model_call_usage_unavailable", "turn:2")]


def test_times_are_recorded_and_the_first_token_where_streamed() -> None:
    trajectory = recorded()
    first, second = trajectory["model_calls"]
    assert (first["started_at"], first["completed_at"], first["duration_ms"]) == (100.0, 100.25, 250.0)
    assert first["response_metadata"]["latency_ttft_ms"] is None
    assert second["response_metadata"]["latency_ttft_ms"] == 20.0
    assert [call["status"] for call in trajectory["tool_calls"]] == ["completed", "failed"]


@pytest.mark.parametrize("capture", [False, True])
def test_payloads_are_recorded_on_request_only(*, capture: bool) -> None:
    trajectory = recorded(capture_payloads=capture)
    call, turn = trajectory["model_calls"][0], trajectory["turns"][0]
    assert (call["request"] is not None, call["response"] is not None) == (capture, capture)
    assert turn["question"] == ([jsonx.loads(item) for item in QUESTION] if capture else None)
    assert len(trajectory["invocations"][0]["conversation"]) == 2


def test_each_call_has_its_own_request_and_one_that_sent_none_has_none() -> None:
    recorder = TrajectoryRecorder("7", "7-0", capture_payloads=True)
    sent = [b'{"input":["a"]}', None, b'{"input":["a","b"]}', b'{"input":[]}']
    for request in sent:
        recorder.turn(QUESTION, replace(model_turn(), request=request))
    trajectory = jsonx.loads(recorder.build(QUESTION, "completed", 1.0) or b"")
    assert [call["request"] for call in trajectory["model_calls"]] == [
        {"input": ["a"]},
        None,
        {"input": ["a", "b"]},
        {"input": []},
    ]


def test_nothing_is_recorded_where_observability_is_off() -> None:
    recorder = TrajectoryRecorder("7", "7-0", enabled=False)
    recorder.turn(QUESTION, model_turn())
    recorder.tools([tool_event("c")])
    assert recorder.build(QUESTION, "completed", 1.0) is None
