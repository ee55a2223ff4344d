"""Builds `ng_trajectory` (schema 1.0) from what the built-in agent saw of one rollout.

It says what happened when: one invocation, its turns, its model calls and its tool calls. What repeats the whole
conversation in every turn (a call's request and response, a turn's question) is recorded on request only; the
conversation itself is there once, in the invocation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from rollgym.driver.policies.items import read_head
from rollgym.driver.policies.protocol import CallTiming, ModelTurn
from rollgym.driver.policies.usage import Usage
from rollgym.driver.request_log import RequestLog

SCHEMA_VERSION = "1.0"
INVOCATION_ID = "root"
Status = Literal["completed", "failed", "incomplete", "unknown"]
ToolStatus = Literal["completed", "failed", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """One tool call as it went."""

    call_id: str
    tool_name: str
    timing: CallTiming
    status: ToolStatus
    output: str
    error_type: str | None = None


@dataclass(frozen=True, slots=True)
class _TurnEvent:
    question: Sequence[bytes] | None
    turn: ModelTurn
    """Without its request, which holds the whole conversation."""
    sent: bool
    """Whether its request is in the log."""
    model_call_id: str
    step_count: int


@dataclass(slots=True)
class TrajectoryRecorder:
    """Notes a rollout's events while it runs. With `enabled` off it notes nothing and builds nothing."""

    task_id: str
    rollout_id: str
    enabled: bool = True
    capture_payloads: bool = False
    _turns: list[_TurnEvent] = field(default_factory=list)
    _tools: list[ToolEvent] = field(default_factory=list)
    _gaps: list[dict[str, str]] = field(default_factory=list)
    _requests: RequestLog = field(default_factory=RequestLog)

    def turn(self, question: Sequence[bytes], turn: ModelTurn) -> None:
        """Note one model turn. `question` is all that the model was shown."""
        if not self.enabled:
            return
        number = len(self._turns) + 1
        if turn.usage is None and turn.dialect != "scripted":
            self._gap("model_call_usage_unavailable", f"turn:{number}")
        asked = list(question) if self.capture_payloads else None
        request = turn.request if self.capture_payloads else None
        if request is not None:
            self._requests.add(request)
        turn = replace(turn, request=None, response=turn.response if self.capture_payloads else b"")
        self._turns.append(
            _TurnEvent(asked, turn, request is not None, f"{self.rollout_id}-call-{number}", len(self._tools))
        )

    def tools(self, events: Iterable[ToolEvent]) -> None:
        """Note the tool calls of the latest turn."""
        if not self.enabled:
            return
        self._tools += events
        if self._turns:
            self._turns[-1] = replace(self._turns[-1], step_count=len(self._tools))

    def _gap(self, code: str, detail: str) -> None:
        self._gaps.append({"code": code, "invocation_id": INVOCATION_ID, "detail": detail})

    def build(self, conversation: Sequence[bytes], status: Status, duration_s: float) -> bytes | None:
        """The record as JSON, or None where nothing was to be noted."""
        if not self.enabled:
            return None
        requests = iter(self._requests.all())
        references = [{"model_call_id": event.model_call_id} for event in self._turns]
        record = {
            "schema_version": SCHEMA_VERSION,
            "task_id": self.task_id,
            "rollout_id": self.rollout_id,
            "invocations": [
                {
                    "kind": "agent_invocation",
                    "invocation_id": INVOCATION_ID,
                    "parent_invocation_id": None,
                    "status": status,
                    "duration_ms": _ms(duration_s),
                    "model_calls": references,
                    "conversation": [msgspec.Raw(item) for item in conversation],
                }
            ],
            "turns": [self._turn(event, number) for number, event in enumerate(self._turns, start=1)],
            "model_calls": [self._model_call(event, next(requests) if event.sent else None) for event in self._turns],
            "tool_calls": [_tool_call(event) for event in self._tools],
            "gaps": self._gaps,
        }
        return msgspec.json.encode(record)

    def _turn(self, event: _TurnEvent, number: int) -> dict[str, Any]:
        reasoning = [item for item in event.turn.output if read_head(item).type == "reasoning"]
        answer = [item for item in event.turn.output if item not in reasoning]
        return {
            "invocation_id": INVOCATION_ID,
            "task_id": self.task_id,
            "rollout_id": self.rollout_id,
            "turn_no": number,
            "timestamp": event.turn.timing.started_at,
            "question": _raw_list(event.question),
            "answer": _raw_list(answer),
            "reasoning_content": _raw_list(reasoning) if reasoning else None,
            "step_count": event.step_count,
            "model_calls": [{"model_call_id": event.model_call_id}],
        }

    def _model_call(self, event: _TurnEvent, request: bytes | None) -> dict[str, Any]:
        turn, timing = event.turn, event.turn.timing
        captured = self.capture_payloads
        return {
            "model_call_id": event.model_call_id,
            "started_at": timing.started_at,
            "completed_at": timing.completed_at,
            "duration_ms": _ms(timing.duration_s),
            "request": None if request is None else msgspec.Raw(request),
            "response": msgspec.Raw(turn.response) if captured else None,
            "response_metadata": {
                "response_id": _text(turn.response_id),
                "model": _text(turn.model),
                "dialect": turn.dialect,
                "status_code": turn.status_code,
                "response_status": turn.finish,
                "finish_reason": _text(turn.finish_reason),
                "latency_ttft_ms": None if timing.ttft_s is None else _ms(timing.ttft_s),
            },
            "token_stats": _token_stats(turn.usage),
        }


def _tool_call(event: ToolEvent) -> dict[str, Any]:
    return {
        "kind": "tool_call",
        "invocation_id": INVOCATION_ID,
        "tool_call_id": _text(event.call_id),
        "tool_name": _text(event.tool_name),
        "started_at": event.timing.started_at,
        "completed_at": event.timing.completed_at,
        "duration_ms": _ms(event.timing.duration_s),
        "timing_source": "executor",
        "status": event.status,
        "error_type": event.error_type,
        "output": event.output,
    }


def _token_stats(usage: Usage | None) -> dict[str, int]:
    """The counts that were reported; the others are absent."""
    if usage is None:
        return {}
    counts = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _text(text: str | None) -> str | None:
    """A server's or a model's word as UTF-8 can hold it: a lone surrogate becomes a question mark."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _raw_list(items: Sequence[bytes] | None) -> list[msgspec.Raw] | None:
    return None if items is None else [msgspec.Raw(item) for item in items]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
