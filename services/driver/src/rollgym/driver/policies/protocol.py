"""What a policy is to the agent: one object per run, one session per rollout, one model turn per call.

Write your own against this module: a class with `start`, whose sessions have `respond`. See
`examples/policies/my_policy.py`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self, runtime_checkable

from rollgym.common import jsonx
from rollgym.driver.policies.usage import Usage
from rollgym.driver.task_view import TaskView

Finish = Literal["completed", "incomplete"]


@dataclass(frozen=True, slots=True)
class SeedAnswer:
    """What the resources server said when it opened the rollout's session."""

    session_id: str | None = None
    observation: Any = None
    tools: Sequence[bytes] = ()
    """Function tools of the environment, each as its JSON."""
    env: str | None = None


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What the model is asked: the whole conversation so far, which grows from turn to turn by appending only."""

    items: Sequence[bytes]
    """Responses items, each as its JSON."""
    tools: Sequence[bytes]
    """Function tools in the Responses form, each as its JSON."""
    turn_no: int
    """From 1."""
    deadline: float | None = None
    """The event loop's time at which the rollout ends; no retry is started that would pass it."""

    def conversation(self) -> list[dict[str, Any]]:
        """The items decoded: a copy, to read and change freely."""
        return [jsonx.loads(item) for item in self.items]

    def tool_definitions(self) -> list[dict[str, Any]]:
        """The tools decoded."""
        return [jsonx.loads(tool) for tool in self.tools]


@dataclass(frozen=True, slots=True)
class CallTiming:
    """When a model call ran. Seconds; `started_at` is wall-clock, the durations are monotonic."""

    started_at: float
    duration_s: float
    ttft_s: float | None = None
    """Time to the first token; known only where the answer was streamed."""

    @property
    def completed_at(self) -> float:
        return self.started_at + self.duration_s


class CallClock:
    """Measures one model call."""

    def __init__(self) -> None:
        self._started_at = time.time()
        self._begin = time.monotonic()
        self._first_token: float | None = None

    def first_token(self) -> None:
        """Note the first token; later calls change nothing."""
        if self._first_token is None:
            self._first_token = time.monotonic()

    def restart(self) -> None:
        """Forget the first token of an answer that broke off: the request is repeated."""
        self._first_token = None

    def stop(self) -> CallTiming:
        ttft = None if self._first_token is None else self._first_token - self._begin
        return CallTiming(self._started_at, time.monotonic() - self._begin, ttft)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One answer of the model, in the Responses form."""

    response: bytes
    """The whole Responses object as JSON."""
    output: tuple[bytes, ...]
    """Its output items, each as its JSON."""
    finish: Finish
    """`incomplete` where the answer was cut (length, content filter): the rollout ends, and is scored."""
    timing: CallTiming
    usage: Usage | None = None
    """None where the endpoint reported none."""
    model: str | None = None
    response_id: str | None = None
    dialect: str = "responses"
    finish_reason: str | None = None
    status_code: int | None = None
    request: bytes | None = field(default=None, repr=False)
    """The request body as it was sent, for capture."""

    @classmethod
    def of(
        cls,
        output: Sequence[Mapping[str, Any]],
        *,
        model: str,
        response_id: str,
        clock: CallClock,
        usage: Usage | None = None,
        dialect: str = "responses",
    ) -> "ModelTurn":
        """A complete turn made of items by a policy that asks no endpoint."""
        encoded = tuple(jsonx.dumps(dict(item)) for item in output)
        timing = clock.stop()
        response: dict[str, Any] = {
            "id": response_id,
            "object": "response",
            "created_at": int(timing.started_at),
            "status": "completed",
            "model": model,
            "output": list(output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        if usage is not None:
            response["usage"] = usage.to_responses()
        return cls(
            response=jsonx.dumps(response),
            output=encoded,
            finish="completed",
            timing=timing,
            usage=usage,
            model=model,
            response_id=response_id,
            dialect=dialect,
        )


class PolicySession(Protocol):
    """One rollout's conversation with the policy. Dropped when the rollout ends; it owns nothing to close."""

    async def respond(self, request: TurnRequest) -> ModelTurn:
        """The model's next turn. Raises ModelError or ModelTimeout; cancellation abandons the call."""
        ...


@runtime_checkable
class Policy(Protocol):
    """One per run, shared by all its rollouts: it owns what they share, such as connections."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    def start(self, task: TaskView, seed: SeedAnswer) -> PolicySession:
        """Begin one rollout. Raises ConfigurationError where this policy cannot play this task."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class OfflinePolicy:
    """Base of policies that hold nothing open."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
