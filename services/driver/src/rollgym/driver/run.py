"""One run from configuration to report: plan, collect, summarize, with everything it opens closed again.

Touches nothing that belongs to the process: no signal handler, no garbage-collector setting, no logging.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from rollgym.common import jsonx
from rollgym.common.errors import ArtifactError
from rollgym.common.metrics import ProcessMetrics
from rollgym.driver.agent import AgentSettings
from rollgym.driver.artifacts.in_memory import in_memory_remark
from rollgym.driver.artifacts.journal import journal_line
from rollgym.driver.artifacts.writer import writing_artifacts
from rollgym.driver.attempts import AttemptRunner
from rollgym.driver.background import repeatedly
from rollgym.driver.bulk_http.client import BulkClient
from rollgym.driver.collection import Collection
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.console import Console
from rollgym.driver.dispatch import DispatchBudget, DispatchQueue
from rollgym.driver.evals.aggregate import ZeroRules
from rollgym.driver.evals.end_of_run import aggregate_run
from rollgym.driver.fleet import Fleet, HeadClient, HeadUnreachable
from rollgym.driver.interruption import Interruption
from rollgym.driver.ledger import RolloutState
from rollgym.driver.loop_phases import LoopPhases
from rollgym.driver.metrics import DriverMetrics
from rollgym.driver.plan import RunPlan, ServersMissing, check_names, plan_run
from rollgym.driver.policies import create_policy
from rollgym.driver.preparation import Prepared
from rollgym.driver.progress import Progress
from rollgym.driver.recorder import Recorder
from rollgym.driver.resources_client import ResourcesClient
from rollgym.driver.run_report import LoopHealth, RunReport, exit_code
from rollgym.driver.run_samples import RunSamples
from rollgym.driver.snapshot import run_snapshot
from rollgym.driver.summary import summary_json
from rollgym.driver.tasks import TaskSurvey
from rollgym.driver.telemetry import RunReporter, serving_metrics
from rollgym.driver.vitals import Vitals

MANIFEST_EVERY_S = 5.0
SERVERS_LOOK_S = 0.25


@dataclass
class Retained:
    """Results as objects, by position: for trainers who asked for them."""

    phases: LoopPhases
    results: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, position: int, line: bytes) -> None:
        with self.phases("retain"):
            self.results[position] = jsonx.loads(line)


@dataclass
class Run:
    """A run with all that it uses. `collect` is called once."""

    config: RolloutCollectionConfig
    prepared: Prepared
    head: HeadClient
    console: Console
    interruption: Interruption
    debug_slow: bool = False
    before_collection: Callable[[], object] = lambda: None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _began_at: float = 0.0
    _done_before: int = 0
    _rows_before: int = 0

    async def collect(self) -> RunReport:
        """Plan, collect, report. Raises ConfigurationError and HeadError before anything has started."""
        survey, fleet = self.prepared.survey, Fleet(self.head)
        remarks = await self._servers(survey, fleet)
        self.console.say(f"Reading {survey.tasks} task(s) from {survey.path}")
        plan = await asyncio.to_thread(plan_run, self.config, survey)
        plan.remarks[:0] = remarks
        if (remark := in_memory_remark(plan.paths.results)) is not None:
            plan.remarks.append(remark)
        try:
            return await self._run(plan, fleet)
        finally:
            plan.rows.close()

    async def _servers(self, survey: TaskSurvey, fleet: Fleet) -> list[str]:
        """Learn of the servers; those that are still starting are waited for. Returns remarks on the task file."""
        give_up_at = time.monotonic() + self.config.servers_wait_s
        said = False
        while True:
            try:
                await fleet.refresh()
                return check_names(survey, self.config, fleet)
            except (HeadUnreachable, ServersMissing) as missing:
                if time.monotonic() >= give_up_at:
                    raise
                if not said:
                    self.console.say(f"Waiting up to {self.config.servers_wait_s:g} s: {missing.message}")
                said = True
            await asyncio.sleep(SERVERS_LOOK_S)

    async def _run(self, plan: RunPlan, fleet: Fleet) -> RunReport:
        self._say_plan(plan)
        self._done_before, self._rows_before = plan.ledger.done, plan.ledger.with_row
        metrics = DriverMetrics(self.registry, plan.ledger)
        phases = LoopPhases(metrics, log_slow=self.debug_slow)
        samples = RunSamples(plan.paths.samples, lambda: plan.ledger.count(RolloutState.IN_FLIGHT))
        vitals = Vitals(ProcessMetrics(self.registry), phases, samples)
        retained = Retained(phases)
        head = self.head if fleet.head_keeps_runs else None
        async with contextlib.AsyncExitStack() as stack:
            writer = await stack.enter_async_context(writing_artifacts(plan.paths))
            on_row = retained.add if self.config.retain_results_in_memory else None
            recorder = Recorder(plan.rows, plan.ledger, plan.statistics, metrics, writer, on_row)
            url = await stack.enter_async_context(
                serving_metrics(self.config, self.prepared.listener, self.registry, head.url if head else None)
            )
            if url is not None:
                self.console.say(f"Metrics of this driver: {url}/metrics")
            runner = await self._runner(stack, fleet, metrics, phases)
            reporter = RunReporter(
                head, plan.manifest.run_id, lambda: run_snapshot(plan, self._rollouts_per_hour(plan)), self.registry
            )
            writer.note(journal_line("resumed" if plan.resumed else "started", note=plan.manifest.run_id))
            self.before_collection()
            collection = self._collection(plan, runner, recorder)  # its clocks begin here
            self._began_at = time.monotonic()
            async with vitals.watched(), reporter.reporting():
                note = await self._collect(plan, collection)
            await writer.flushed()
            plan.ledger.nothing_runs()
            report = self._report(plan, note, vitals.health, retained.results)
            with contextlib.suppress(ArtifactError):
                writer.note(journal_line("ended", note=report.state))
            await self._save_end(plan, report)
            await self._aggregate(plan, fleet, report)
            await reporter.final(summary_json(report))
        return report

    async def _aggregate(self, plan: RunPlan, fleet: Fleet, report: RunReport) -> None:
        if self.config.disable_aggregation:
            return
        servers = {name: fleet.agent(name) for name in plan.statistics.by_agent}
        urls = {name: server.url for name, server in servers.items() if server is not None}
        rules = ZeroRules(
            missing=self.config.count_missing_rollouts_as_zero,
            failure_classes=frozenset(self.config.count_failure_classes_as_zero),
        )
        report.remarks += await aggregate_run(plan.paths, urls, rules, self.interruption.watch_end)

    async def _runner(
        self, stack: contextlib.AsyncExitStack, fleet: Fleet, metrics: DriverMetrics, phases: LoopPhases
    ) -> AttemptRunner:
        config = self.config
        await stack.enter_async_context(fleet.refreshing())
        return AttemptRunner(
            config=config,
            fleet=fleet,
            policy=await stack.enter_async_context(create_policy(config.policy)),
            resources=await stack.enter_async_context(ResourcesClient(token=config.token)),
            http=await stack.enter_async_context(BulkClient()),
            metrics=metrics,
            phases=phases,
            agent_settings=AgentSettings(
                max_steps=config.max_steps,
                capture_payloads=config.capture_payloads,
                observability_enabled=config.observability_enabled,
            ),
        )

    def _collection(self, plan: RunPlan, runner: AttemptRunner, recorder: Recorder) -> Collection:
        config = self.config
        queue = DispatchQueue(
            plan.rows,
            plan.fresh(interleave=config.interleave_repeats),
            prior_attempts=plan.prior_attempts,
            backoff_s=config.retry_backoff_s,
        )
        return Collection(
            rows=plan.rows,
            runner=runner,
            recorder=recorder,
            queue=queue,
            budget=DispatchBudget(config.dispatch_budget_s, config.drain_margin_s, plan.statistics.latency),
            workers=config.workers,
            max_attempts=config.max_rollout_attempts,
            granted_anew=plan.granted_anew,
        )

    async def _collect(self, plan: RunPlan, collection: Collection) -> str | None:
        """Collect to the end, however it comes; returns why it stopped early, None where it did not."""
        progress = Progress(self.console, plan.ledger, plan.statistics, self.config.progress_interval_s)
        note: str | None = None
        async with (
            progress.shown(),
            repeatedly(lambda: self._save(plan), MANIFEST_EVERY_S, "manifest"),
        ):
            collecting = asyncio.create_task(collection.run(), name="collection")
            self.interruption.watch(collection, collecting)
            try:
                await collecting
            except asyncio.CancelledError:
                if self.interruption.reason is None:
                    collecting.cancel()
                    await asyncio.wait({collecting})
                    raise
            except ArtifactError as error:
                note = error.message
        return note or self.interruption.reason

    def _rollouts_per_hour(self, plan: RunPlan) -> float | None:
        elapsed_s = time.monotonic() - self._began_at
        return (plan.ledger.with_row - self._rows_before) / elapsed_s * 3600 if elapsed_s > 0 else None

    async def _save(self, plan: RunPlan) -> None:
        """Now and then: where it fails, as on a full disk, the last save counts and the next may work."""
        plan.manifest.counts = plan.ledger.counts()
        with contextlib.suppress(ArtifactError):
            await asyncio.to_thread(plan.manifest.model_copy().write, plan.paths.manifest)

    def _report(
        self, plan: RunPlan, note: str | None, health: LoopHealth, results: dict[int, dict[str, Any]]
    ) -> RunReport:
        counts = plan.ledger.counts()
        report = RunReport(
            run_id=plan.manifest.run_id,
            state="finished",
            counts=counts,
            statistics=plan.statistics,
            failures=dict(plan.ledger.failures),
            paths=plan.paths,
            elapsed_s=time.monotonic() - self._began_at,
            done_now=plan.ledger.done - self._done_before,
            rows_now=plan.ledger.with_row - self._rows_before,
            health=health,
            remarks=plan.remarks,
            note=note,
            results=results,
        )
        if note is not None:
            report.state = "interrupted" if note == self.interruption.reason else "failed"
        elif not report.complete:
            report.state = "incomplete"
        return report

    async def _save_end(self, plan: RunPlan, report: RunReport) -> None:
        """How the run ended is on disk before anything else is waited for."""
        manifest = plan.manifest
        manifest.counts, manifest.state, manifest.note = report.counts, report.state, report.note
        manifest.ended_at = time.time()
        manifest.exit_code = exit_code(report, require_complete=self.config.require_complete)
        with contextlib.suppress(ArtifactError):
            manifest.write(plan.paths.manifest)

    def _say_plan(self, plan: RunPlan) -> None:
        for remark in plan.remarks:
            self.console.say(f"Note: {remark}")
        owed, done = len(plan.ledger), plan.ledger.done
        what = (
            f"Resuming run {plan.manifest.run_id}: {done} of {owed} done"
            if plan.resumed
            else (f"Run {plan.manifest.run_id}: {owed} rollout(s) owed")
        )
        self.console.say(f"{what}, {self.config.workers} in flight at most, policy {self.config.policy.kind}")
