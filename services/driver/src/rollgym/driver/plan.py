"""From a configuration to what is owed: a new run's rows, or an old run's rows less what is done.

Everything that can be wrong with files and settings is found here, before anything starts.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rollgym.common.errors import ConfigurationError
from rollgym.common.failures import FailureClass
from rollgym.common.suggestions import did_you_mean
from rollgym.driver.artifacts.manifest import Manifest, digest_of
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.artifacts.recovery import FailureHistory, recover
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.fleet import Fleet
from rollgym.driver.ledger import Ledger, RolloutState
from rollgym.driver.materialized import (
    BUILT_IN_AGENT,
    Key,
    MaterializedRows,
    dispatch_order,
    load_materialized,
    materialize,
)
from rollgym.driver.rollout_facts import RolloutFacts
from rollgym.driver.statistics import RunStatistics
from rollgym.driver.tasks import TaskSurvey, survey_tasks


class ServersMissing(ConfigurationError):
    """No resources server is registered; one may be starting."""


@dataclass
class RunPlan:
    """A run about to start or to go on. `remarks` are sentences for the person at the terminal."""

    paths: ArtifactPaths
    manifest: Manifest
    rows: MaterializedRows
    ledger: Ledger
    statistics: RunStatistics
    prior_attempts: dict[int, int] = field(default_factory=dict)
    granted_anew: dict[int, int] = field(default_factory=dict)
    longest_first: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    resumed: bool = False

    def fresh(self, *, interleave: bool) -> Iterator[int]:
        """Positions that are owed, in the order in which they are to start."""
        yield from self.longest_first
        first = set(self.longest_first)
        for position in dispatch_order(self.rows, interleave=interleave):
            if position not in first and self.ledger.state(position) is RolloutState.OWED:
                yield position


def check_names(survey: TaskSurvey, config: RolloutCollectionConfig, fleet: Fleet) -> list[str]:
    """Compare the names that task lines use with the servers there are.

    Raises ConfigurationError for a row of the built-in agent that it cannot play, that no resources server is there
    for, or whose environment none of them plays. Returns remarks about agents that are not registered: their rows are
    run by the built-in agent.
    """
    remarks: dict[str, str] = {}
    built_in: dict[str | None, int] = {}
    for (name, env), line in survey.names.items():
        agent = name or config.agent_name
        if agent is not None and fleet.agent(agent) is not None:
            continue
        if agent not in (None, BUILT_IN_AGENT):
            said = f"agent {agent!r} (line {line}) is not registered: the built-in agent runs its rows"
            remarks.setdefault(str(agent), said)
        if name in survey.unplayable:
            number, reason = survey.unplayable[name]
            raise ConfigurationError(f"{survey.path}: line {number}: {reason}")
        built_in.setdefault(env, line)
    if built_in:
        _check_environments(survey, config, fleet, built_in)
    return list(remarks.values())


def _check_environments(
    survey: TaskSurvey, config: RolloutCollectionConfig, fleet: Fleet, lines: dict[str | None, int]
) -> None:
    if not fleet.resources():
        raise ServersMissing(f"no resources server is registered with the head at {fleet.head.url}: is one started?")
    known = fleet.envs()
    for name, line in lines.items():
        env = name or config.env
        if known is not None and env is not None and env not in known:
            where = f"{survey.path}: line {line}: " if name else "env: "
            hint = did_you_mean(env, sorted(known))
            raise ConfigurationError(
                f"{where}unknown environment {env!r}{hint}; known: {', '.join(sorted(known)) or 'none'}"
            )


def plan_run(config: RolloutCollectionConfig, survey: TaskSurvey) -> RunPlan:
    """A new run, or with `resume_from_cache` the one whose artifacts are there. Blocks; run it off the loop.

    The output's lock is held by the caller. Raises ConfigurationError, ArtifactError.
    """
    paths = ArtifactPaths(config.output_jsonl_fpath)
    if paths.manifest.exists() and config.resume_from_cache:
        return _old_run(config, survey, paths)
    _refuse_earlier_run(config, paths)
    for path in (*_with_content(paths), *paths.leftovers()):
        path.unlink(missing_ok=True)
    return _new_run(config, survey, paths)


def check_output(config: RolloutCollectionConfig, survey: TaskSurvey) -> None:
    """Raise ConfigurationError where the output holds a run that this one may neither replace nor go on with.

    Changes nothing.
    """
    paths = ArtifactPaths(config.output_jsonl_fpath)
    if paths.manifest.exists() and config.resume_from_cache:
        Manifest.read(paths.manifest).refuse_other_run(config, survey.digest)
    else:
        _refuse_earlier_run(config, paths)


def _with_content(paths: ArtifactPaths) -> list[Path]:
    return [path for path in paths.all_files() if path.exists() and path.stat().st_size > 0]


def _refuse_earlier_run(config: RolloutCollectionConfig, paths: ArtifactPaths) -> None:
    own = (paths.results, paths.failures, paths.manifest)
    rows_or_manifest = [path for path in _with_content(paths) if path in own]
    if rows_or_manifest and not config.overwrite:
        named = ", ".join(path.name for path in rows_or_manifest)
        resume = "--resume goes on with it" if paths.manifest.exists() else "It has no manifest and cannot be resumed"
        raise ConfigurationError(
            f"output_jsonl_fpath: an earlier run's artifacts are there: {named} in {paths.results.parent}. "
            f"{resume}; --overwrite replaces it, another --output leaves it alone"
        )


def _new_run(config: RolloutCollectionConfig, survey: TaskSurvey, paths: ArtifactPaths) -> RunPlan:
    rows = materialize(config, paths.materialized_inputs)
    settings = config.result_settings()
    manifest = Manifest(
        run_id=f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}",
        started_at=time.time(),
        input_file=str(survey.path),
        input_digest=survey.digest,
        settings=settings,
        settings_digest=digest_of(settings),
        owed=len(rows),
        materialized_bytes=rows.size_bytes,
    )
    ledger = Ledger(len(rows))
    manifest.counts = ledger.counts()
    manifest.write(paths.manifest)
    return RunPlan(paths, manifest, rows, ledger, RunStatistics())


def _old_run(config: RolloutCollectionConfig, survey: TaskSurvey, paths: ArtifactPaths) -> RunPlan:
    manifest = Manifest.read(paths.manifest)
    manifest.refuse_other_run(config, survey.digest)
    rows = load_materialized(paths.materialized_inputs, size_bytes=manifest.materialized_bytes, owed=manifest.owed)
    plan = RunPlan(paths, manifest, rows, Ledger(len(rows)), RunStatistics(), resumed=True)

    def on_row(position: int, key: Key, facts: RolloutFacts) -> None:
        plan.ledger.move(position, RolloutState.MASKED if facts.masked else RolloutState.SUCCEEDED)
        plan.statistics.add_row(key, facts)

    found = recover(paths, rows, on_row, repair=config.repair)
    plan.remarks += found.remarks
    for position, history in found.failures.items():
        _settle(plan, config, position, history)
    if config.dispatch_longest_first:
        owed = [at for at in found.failures if plan.ledger.state(at) is RolloutState.OWED]
        plan.longest_first = sorted(owed, key=lambda at: found.failures[at].longest_s, reverse=True)
    manifest.state, manifest.ended_at, manifest.exit_code, manifest.note = "running", None, None, None
    manifest.resumed_at.append(time.time())
    manifest.counts = plan.ledger.counts()
    manifest.write(paths.manifest)
    return plan


def _settle(plan: RunPlan, config: RolloutCollectionConfig, position: int, history: FailureHistory) -> None:
    """A rollout with failed attempts and no row: failed for good, or owed with fewer attempts left."""
    if plan.ledger.state(position) is not RolloutState.OWED:
        return
    plan.prior_attempts[position] = history.attempts
    # Where nobody listened, the rollout was never tried: that says nothing about it, and a resume tries it.
    if config.retry_failed or history.last_class == FailureClass.ENV_REFUSED:
        plan.granted_anew[position] = history.attempts
    elif history.terminal or history.attempts >= config.max_rollout_attempts:
        plan.ledger.fail(position, history.last_class)


def survey_of(config: RolloutCollectionConfig) -> TaskSurvey:
    """Check output and task file. Raises ConfigurationError; makes the output's folder and nothing else."""
    paths = ArtifactPaths(config.output_jsonl_fpath)
    paths.refuse_own(config.input_jsonl_fpath)
    paths.check_writable()
    return survey_tasks(config.input_jsonl_fpath, config.limit)
