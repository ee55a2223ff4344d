"""The built-in tool agent: one rollout from seed to verdict.

    seed ─► policy ⇄ tools … ─► verify          close, on every other way out

It owns the loop and the session's lifetime. Who plays is the policy's business, what the session is the resources
server's, whether and when to try again the collector's.

The model's first input is the row's `responses_create_params.input`, then, where the environment opened with an
observation, one user message that says it (see `observation_text`). Its tools are the row's own where the row names
some, else those that the environment offers.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from rollgym.common import jsonx
from rollgym.common.errors import RollgymError
from rollgym.driver.conversation import (
    final_response,
    first_input,
    function_calls,
    marked_truncated,
    offered_tools,
    with_response,
)
from rollgym.driver.policies.items import function_call_output
from rollgym.driver.policies.protocol import ModelTurn, Policy, PolicySession, SeedAnswer, TurnRequest
from rollgym.driver.policies.usage import Usage
from rollgym.driver.resources_client import ResourcesClient, ResourcesSession
from rollgym.driver.task_view import TaskView
from rollgym.driver.toolbox import Toolbox
from rollgym.driver.trajectory import TrajectoryRecorder
from rollgym.driver.verdict import Verdict

Phase = Literal["seed", "model", "tools", "verify", "done"]


class AgentSettings(BaseModel):
    """Settings of the built-in agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int | None = Field(100, ge=1, description="model calls of one rollout; null: as many as it takes")
    parallel_tool_calls: int = Field(
        16, ge=1, le=64, description="tool calls of one turn in flight at once; 1 keeps them strictly in call order"
    )
    capture_payloads: bool | None = Field(
        None, description="record requests, responses and questions of every model call in the trajectory"
    )
    observability_enabled: bool = Field(True, description="record a trajectory")
    close_timeout_s: float = Field(5, gt=0, le=60, description="seconds that closing the session may take")


@dataclass(slots=True)
class RolloutProgress:
    """How far a rollout came. Kept up to date as it runs, so that it also tells of one that failed or was cancelled."""

    phase: Phase = "seed"
    session_id: str | None = None
    usage: Usage | None = None
    turns: int = 0
    tool_calls: int = 0
    session_wait_s: float = 0.0
    model_s: float = 0.0
    tools_s: float = 0.0
    verify_s: float = 0.0
    active_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RolloutTimings:
    """Where a rollout's time went, by a monotonic clock. `active_s` is all but the wait for a session."""

    session_wait_s: float
    model_s: float
    tools_s: float
    verify_s: float
    active_s: float


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """A judged rollout."""

    verify_body: bytes
    """The verify answer, one JSON object; with `"truncated": true` added where the rollout was cut short."""
    reward: float | None
    """Finite; None only where the sample is masked and the server gave no number."""
    mask_sample: bool
    failure_kind: str | None
    failure_reason: str | None
    trajectory: bytes | None
    """`ng_trajectory` as JSON; None where observability is off."""
    truncated: bool
    """The agent used up its turns, or the model its tokens: a scored rollout all the same."""
    usage: Usage | None
    """Summed over the model calls that reported it; None where none did."""
    timings: RolloutTimings
    turns: int
    tool_calls: int


class AgentObserver(Protocol):
    """Hears of each call as it ends; for metrics."""

    def session_opened(self, wait_s: float) -> None: ...

    def model_called(self, duration_s: float, usage: Usage | None, error: str | None) -> None: ...

    def tool_called(self, duration_s: float, status: str) -> None: ...


class _Unobserved:
    def session_opened(self, wait_s: float) -> None: ...

    def model_called(self, duration_s: float, usage: Usage | None, error: str | None) -> None: ...

    def tool_called(self, duration_s: float, status: str) -> None: ...


async def run_rollout(
    task: TaskView,
    *,
    resources: ResourcesClient,
    base_url: str,
    policy: Policy,
    settings: AgentSettings,
    deadline: float | None = None,
    progress: RolloutProgress | None = None,
    observer: AgentObserver | None = None,
) -> RolloutResult:
    """Play one task against the resources server at `base_url` and have it judged.

    `deadline` is the event loop's time at which the caller will end the rollout (it sets the timeout itself); no retry
    is begun that would pass it. Whatever the end, cancellation included, the session is closed: shielded, within
    `close_timeout_s`, and `progress` says how far it came. Raises RollgymErrors of the boundary that failed.
    """
    progress = progress if progress is not None else RolloutProgress()
    session = resources.session(base_url)
    rollout = _Rollout(task, session, settings, deadline, progress, observer or _Unobserved())
    started = time.monotonic()
    try:
        return await rollout.run(policy)
    finally:
        if progress.phase == "seed" and progress.session_wait_s == 0.0:
            progress.session_wait_s = time.monotonic() - started
        progress.active_s = max(0.0, time.monotonic() - started - progress.session_wait_s)
        await session.close(settings.close_timeout_s)


@dataclass(slots=True)
class _Rollout:
    """One run of the loop."""

    task: TaskView
    session: ResourcesSession
    settings: AgentSettings
    deadline: float | None
    progress: RolloutProgress
    observer: AgentObserver
    items: list[bytes] = field(default_factory=list)
    truncated: bool = False

    async def run(self, policy: Policy) -> RolloutResult:
        seed = await self._seed()
        began = time.monotonic()
        self.items += first_input(self.task, seed)
        given = len(self.items)
        recorder = TrajectoryRecorder(
            self.task.task_id,
            self.task.rollout_id,
            enabled=self.settings.observability_enabled,
            capture_payloads=bool(self.settings.capture_payloads),
        )
        last = await self._play(policy.start(self.task, seed), offered_tools(self.task, seed), recorder)
        response = final_response(last, self.items[given:], self.progress.usage, max_steps=self.truncated)
        truncated = self.truncated or last.finish == "incomplete"
        verdict = await self._verify(response)
        active_s = time.monotonic() - began
        trajectory = recorder.build(self.items, "incomplete" if truncated else "completed", active_s)
        self.progress.phase = "done"
        return self._result(verdict, trajectory, active_s, truncated=truncated)

    async def _seed(self) -> SeedAnswer:
        began = time.monotonic()
        seed = await self.session.seed(self.task.raw)
        self.progress.session_wait_s = time.monotonic() - began
        self.progress.session_id = self.session.session_id
        self.observer.session_opened(self.progress.session_wait_s)
        return seed

    async def _play(
        self, policy_session: PolicySession, tools: Sequence[bytes], recorder: TrajectoryRecorder
    ) -> ModelTurn:
        """Turn after turn, until the model has said its last word, the episode is over, or the turns are used up."""
        toolbox = Toolbox(self.session, tools, self.settings.parallel_tool_calls, self.observer)
        while True:
            asked = list(self.items)
            turn = await self._ask(policy_session, TurnRequest(asked, tools, self.progress.turns + 1, self.deadline))
            recorder.turn(asked, turn)
            self.items += turn.output
            calls = function_calls(turn)
            if turn.finish == "incomplete" or not calls:
                return turn
            self.progress.phase = "tools"
            began = time.monotonic()
            try:
                events, done = await toolbox.run(calls)
            finally:
                self.progress.tools_s += time.monotonic() - began
            recorder.tools(events)
            self.progress.tool_calls += len(events)
            self.items += [jsonx.dumps(function_call_output(event.call_id, event.output)) for event in events]
            if done:
                return turn
            if self.settings.max_steps is not None and self.progress.turns >= self.settings.max_steps:
                self.truncated = True
                return turn

    async def _ask(self, policy_session: PolicySession, request: TurnRequest) -> ModelTurn:
        self.progress.phase = "model"
        began = time.monotonic()
        usage: Usage | None = None
        error: str | None = None
        try:
            turn = await policy_session.respond(request)
            usage = turn.usage
        except RollgymError as failure:
            error = failure.code
            raise
        except BaseException:
            error = "cancelled"
            raise
        finally:
            spent = time.monotonic() - began
            self.progress.model_s += spent
            self.observer.model_called(spent, usage, error)
        self.progress.turns += 1
        if usage is not None:
            self.progress.usage = usage + self.progress.usage
        return turn

    async def _verify(self, response: bytes) -> Verdict:
        self.progress.phase = "verify"
        began = time.monotonic()
        try:
            return await self.session.verify(with_response(self.task.raw, response))
        finally:
            self.progress.verify_s = time.monotonic() - began

    def _result(self, verdict: Verdict, trajectory: bytes | None, active_s: float, *, truncated: bool) -> RolloutResult:
        progress = self.progress
        return RolloutResult(
            verify_body=marked_truncated(verdict.body) if truncated else verdict.body,
            reward=verdict.reward,
            mask_sample=verdict.mask_sample,
            failure_kind=verdict.failure_kind,
            failure_reason=verdict.failure_reason,
            trajectory=trajectory,
            truncated=truncated,
            usage=progress.usage,
            timings=RolloutTimings(
                session_wait_s=progress.session_wait_s,
                model_s=progress.model_s,
                tools_s=progress.tools_s,
                verify_s=progress.verify_s,
                active_s=active_s,
            ),
            turns=progress.turns,
            tool_calls=progress.tool_calls,
        )
