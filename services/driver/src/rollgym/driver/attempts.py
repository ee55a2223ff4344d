"""One attempt at one rollout: sent to whoever runs it, bounded in time, its end turned into data.

The built-in agent runs a row unless its `agent_ref` names a server that the head knows as an agent.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from rollgym.common.errors import RollgymError, RolloutTimeout
from rollgym.common.failures import FailureClass, failure_class
from rollgym.common.logs import get_logger
from rollgym.common.surrogates import mask_lone_surrogates
from rollgym.driver.agent import AgentSettings, RolloutProgress, run_rollout
from rollgym.driver.agent_server import post_run
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.fleet import Fleet, Server
from rollgym.driver.loop_phases import LoopPhases
from rollgym.driver.metrics import DriverMetrics
from rollgym.driver.outcomes import Attempt, Failed, Outcome, Succeeded, Timings
from rollgym.driver.payloads import TIMINGS_KEY, Payload, Tokens
from rollgym.driver.policies.protocol import Policy
from rollgym.driver.resources_client import ResourcesClient
from rollgym.driver.rollout_perf import NG_TRAJECTORY_KEY
from rollgym.driver.task_view import TaskView

log = get_logger(__name__)

_OBJECT = dict[str, msgspec.Raw]
_object_decoder = msgspec.json.Decoder(_OBJECT)
_KEPT_OF_ROW = ("agent_ref", "responses_create_params", "tags")


@dataclass(frozen=True)
class AttemptRunner:
    """Everything that attempts share. One per run; its clients are opened and closed by their owner."""

    config: RolloutCollectionConfig
    fleet: Fleet
    policy: Policy
    resources: ResourcesClient
    http: aiohttp.ClientSession
    metrics: DriverMetrics
    phases: LoopPhases
    agent_settings: AgentSettings

    async def run(self, attempt: Attempt, row: bytes, admission_s: float) -> Outcome:
        """Run to an outcome. Only cancellation and bugs in the collector itself come out as exceptions."""
        begun = time.monotonic()
        progress = RolloutProgress()
        limit = asyncio.timeout(self.config.rollout_timeout_s)
        try:
            try:
                async with limit:
                    return await self._finish(attempt, row, progress, begun, admission_s)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise RolloutTimeout(
                    f"not finished within {self.config.rollout_timeout_s:g} s (rollout_timeout_s)", phase=progress.phase
                ) from error
        except RollgymError as error:
            return self._failed(error, progress, self._timings(progress, begun, admission_s))
        except Exception as error:
            log.exception("a rollout ended in an error of the collector's own", rollout_id=attempt.rollout_id)
            message = f"{type(error).__name__}: {error}"
            timings = self._timings(progress, begun, admission_s)
            return Failed(FailureClass.INTERNAL, message, terminal=True, timings=timings)

    async def _finish(
        self, attempt: Attempt, row: bytes, progress: RolloutProgress, begun: float, admission_s: float
    ) -> Outcome:
        with self.phases("dispatch"):
            fields = _object_decoder.decode(mask_lone_surrogates(row))
            agent = self.fleet.agent(_agent_name(fields))
        if agent is not None:
            payload = await self._by_agent_server(agent, attempt, row)
        else:
            payload = await self._by_built_in_agent(attempt, row, progress)
        timings = self._timings(progress, begun, admission_s, built_in=agent is None)
        with self.phases("project"):
            return self._outcome(payload, attempt, fields, timings)

    async def _by_agent_server(self, agent: Server, attempt: Attempt, row: bytes) -> Payload:
        body = _with_attempt(row, attempt.number)
        with self.fleet.occupied(agent):
            answer = await post_run(self.http, agent.url, body)
        with self.phases("decode"):
            payload = Payload(answer)
            if self.config.capture_payloads is False:
                payload.strip_capture()
            return payload

    async def _by_built_in_agent(self, attempt: Attempt, row: bytes, progress: RolloutProgress) -> Payload:
        with self.phases("dispatch"):
            task = TaskView.decode(mask_lone_surrogates(row), rollout_id=attempt.rollout_id)
            server = self.fleet.resources_for(task.env)
        loop = asyncio.get_running_loop()
        limit_s = self.config.rollout_timeout_s
        with self.fleet.occupied(server):
            result = await run_rollout(
                task,
                resources=self.resources,
                base_url=server.url,
                policy=self.policy,
                settings=self.agent_settings,
                deadline=None if limit_s is None else loop.time() + limit_s,
                progress=progress,
                observer=self.metrics,
            )
        with self.phases("decode"):
            payload = Payload(result.verify_body)
            if result.trajectory is not None:
                payload.put(NG_TRAJECTORY_KEY, result.trajectory)
            return payload

    def _outcome(self, payload: Payload, attempt: Attempt, row: _OBJECT, timings: Timings) -> Outcome:
        marks = payload.failure_marks()
        if marks is not None:
            return Failed(marks.failure_class, marks.message, marks.terminal, timings)
        self._identify(payload, attempt, row)
        if self.config.observability_enabled:
            payload.build_perf(round(timings.rollout_s * 1000, 3))
        else:
            payload.drop(NG_TRAJECTORY_KEY)
        payload.put(TIMINGS_KEY, timings.to_json())
        facts = payload.facts()
        return Succeeded(payload.line(), facts, timings)

    def _identify(self, payload: Payload, attempt: Attempt, row: _OBJECT) -> None:
        """Put in which rollout this is; what the row says of itself is kept where the answer does not echo it."""
        payload.put("_ng_task_index", attempt.key[0])
        payload.put("_ng_rollout_index", attempt.key[1])
        payload.drop("_ng_attempt_index")
        if attempt.number:
            payload.put("_ng_attempt_index", attempt.number)
        for name in _KEPT_OF_ROW:
            if name in row and (name == "agent_ref" or not payload.has(name)):
                payload.put(name, bytes(row[name]))

    def _failed(self, error: RollgymError, progress: RolloutProgress, timings: Timings) -> Failed:
        kind = failure_class(error)
        masked = bool(error.data.get("masked"))
        terminal = error.data.get("terminal")
        usage = progress.usage
        tokens = Tokens() if usage is None else Tokens(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        data = {name: value for name, value in error.data.items() if name not in ("terminal", "masked")}
        return Failed(
            failure_class=kind,
            message=error.message,
            terminal=masked or bool(terminal) or (terminal is None and not kind.retryable),
            timings=timings,
            masked=masked,
            tokens=tokens,
            data=data,
        )

    def _timings(
        self, progress: RolloutProgress, begun: float, admission_s: float, *, built_in: bool = True
    ) -> Timings:
        elapsed_s = time.monotonic() - begun
        session_s = progress.session_wait_s if built_in else None
        return Timings(admission_s, session_s, max(0.0, elapsed_s - (session_s or 0.0)))


def _agent_name(row: _OBJECT) -> str:
    ref: dict[str, Any] = msgspec.json.decode(row["agent_ref"])
    return str(ref.get("name"))


def _with_attempt(row: bytes, number: int) -> bytes:
    """The row with `_ng_attempt_index` where this is not the first attempt."""
    return row if number == 0 else b'%s,"_ng_attempt_index":%d}' % (row.rstrip()[:-1], number)
