"""One attempt at one rollout: sent to whoever runs it, bounded in time, its end turned into data.

The built-in agent runs a row unless its `agent_ref` names a server that the head knows as an agent.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from rollgym.common.errors import RollgymError, RolloutTimeout
from rollgym.common.failures import FailureClass, failure_class
from rollgym.common.logs import get_logger
from rollgym.driver.agent import AgentSettings, RolloutProgress, run_rollout
from rollgym.driver.agent_server import post_run
from rollgym.driver.bulk_http.client import BulkClient
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.fleet import Fleet
from rollgym.driver.loop_phases import LoopPhases
from rollgym.driver.materialized import RowLabels
from rollgym.driver.metrics import DriverMetrics
from rollgym.driver.outcomes import Failed, Outcome, Succeeded, Timings
from rollgym.driver.owed_row import OwedRow, readable
from rollgym.driver.payload_memory import PayloadMemory, Reservation
from rollgym.driver.payloads import TIMINGS_KEY, Payload
from rollgym.driver.policies.protocol import Policy
from rollgym.driver.resources_client import ResourcesClient
from rollgym.driver.rollout_facts import Tokens
from rollgym.driver.rollout_perf import NG_TRAJECTORY_KEY
from rollgym.driver.task_view import TaskView
from rollgym.driver.time_limit import TimeLimit

log = get_logger(__name__)


@dataclass(frozen=True)
class AttemptRunner:
    """Everything that attempts share. One per run; its clients are opened and closed by their owner."""

    config: RolloutCollectionConfig
    fleet: Fleet
    policy: Policy
    resources: ResourcesClient
    http: BulkClient
    metrics: DriverMetrics
    phases: LoopPhases
    agent_settings: AgentSettings
    sending: PayloadMemory = field(default_factory=PayloadMemory)
    """Bounds the rows that are on their way to agent servers."""
    limit: TimeLimit = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", TimeLimit(self.config.rollout_timeout_s))

    async def run(self, row: OwedRow, admission_s: float, memory: Reservation) -> Outcome:
        """Run to an outcome. Only cancellation comes out as an exception.

        `memory` holds what the answer takes; the caller gives it back once the outcome is written.
        """
        under_way = _UnderWay(self, row, admission_s, memory)
        limit = self.limit
        limit.begin()
        try:
            try:
                return await under_way.finish()
            except asyncio.CancelledError as error:
                if not limit.passed():
                    raise
                raise RolloutTimeout(
                    f"not finished within {self.config.rollout_timeout_s:g} s (rollout_timeout_s)",
                    **under_way.phase(),
                ) from error
        except RollgymError as error:
            return under_way.failed(error)
        except Exception as error:
            rollout_id = row.attempt.rollout_id
            log.exception("a rollout ended in an error of the collector's own", rollout_id=rollout_id)
            message = f"{type(error).__name__}: {error}"
            return Failed(FailureClass.INTERNAL, message, terminal=True, timings=under_way.timings())
        finally:
            limit.end()


@dataclass
class _UnderWay:
    """One attempt while it runs."""

    runner: AttemptRunner
    row: OwedRow
    admission_s: float
    memory: Reservation
    progress: RolloutProgress | None = None
    """How far the built-in agent came; None where an agent server runs the rollout, out of sight."""
    _begun_at: float = field(default_factory=time.monotonic)

    async def finish(self) -> Outcome:
        runner = self.runner
        with runner.phases("dispatch"):
            labels = self.row.labels
            agent = runner.fleet.agent(labels.agent)
        if agent is None:
            payload = await self._built_in_agent()
        else:
            with agent:
                answer = await post_run(runner.http, agent.url, self.row, runner.sending, self.memory)
            with runner.phases("decode"):
                payload = self._payload(answer)
            del answer
        with runner.phases("project"):
            return self._outcome(payload, labels)

    def _payload(self, answer: bytes | bytearray) -> Payload:
        payload = Payload(answer)
        if self.runner.config.capture_payloads is False:
            payload.strip_capture()
        return payload

    async def _built_in_agent(self) -> Payload:
        runner, limit_s = self.runner, self.runner.config.rollout_timeout_s
        with runner.phases("dispatch"):
            task = TaskView.decode(readable(self.row.read()), rollout_id=self.row.attempt.rollout_id)
            server = runner.fleet.resources_for(task.env)
        self.progress = RolloutProgress()
        loop = asyncio.get_running_loop()
        with server:
            result = await run_rollout(
                task,
                resources=runner.resources,
                base_url=server.url,
                policy=runner.policy,
                settings=runner.agent_settings,
                deadline=None if limit_s is None else loop.time() + limit_s,
                progress=self.progress,
                observer=runner.metrics,
            )
        with runner.phases("decode"):
            payload = Payload(result.verify_body)
            if result.trajectory is not None:
                payload.put(NG_TRAJECTORY_KEY, result.trajectory)
            return payload

    def _outcome(self, payload: Payload, labels: RowLabels) -> Outcome:
        marks = payload.failure_marks()
        timings = self.timings()
        if marks is not None:
            return Failed(marks.failure_class, marks.message, marks.terminal, timings)
        self._identify(payload, labels)
        if self.runner.config.observability_enabled:
            payload.build_perf(round(timings.rollout_s * 1000, 3))
        else:
            payload.drop(NG_TRAJECTORY_KEY)
        payload.put(TIMINGS_KEY, timings.to_json())
        facts = payload.facts()
        return Succeeded(payload.line(), facts, timings)

    def _identify(self, payload: Payload, labels: RowLabels) -> None:
        """Put in which rollout this is; what the row says of itself is kept where the answer does not echo it."""
        attempt = self.row.attempt
        payload.put("_ng_task_index", attempt.key[0])
        payload.put("_ng_rollout_index", attempt.key[1])
        payload.drop("_ng_attempt_index")
        if attempt.number:
            payload.put("_ng_attempt_index", attempt.number)
        payload.put("agent_ref", labels.agent_ref)
        if labels.tags is not None and not payload.has("tags"):
            payload.put("tags", labels.tags)
        if not payload.has("responses_create_params"):
            payload.put("responses_create_params", self.row.responses_create_params())

    def failed(self, error: RollgymError) -> Failed:
        kind = failure_class(error)
        masked, terminal = bool(error.data.get("masked")), error.data.get("terminal")
        usage = None if self.progress is None else self.progress.usage
        tokens = Tokens() if usage is None else Tokens(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        return Failed(
            failure_class=kind,
            message=error.message,
            terminal=masked or bool(terminal) or (terminal is None and not kind.retryable),
            timings=self.timings(),
            masked=masked,
            tokens=tokens,
            data={name: value for name, value in error.data.items() if name not in ("terminal", "masked")},
        )

    def phase(self) -> dict[str, str]:
        """The phase it is in, where that can be seen."""
        return {} if self.progress is None else {"phase": self.progress.phase}

    def timings(self) -> Timings:
        elapsed_s = time.monotonic() - self._begun_at
        session_s = None if self.progress is None else self.progress.session_wait_s
        return Timings(self.admission_s, session_s, max(0.0, elapsed_s - (session_s or 0.0)))
