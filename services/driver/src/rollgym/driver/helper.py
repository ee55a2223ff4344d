"""The library's way in: collection for trainers and tools that run in a process of their own.

Nothing of the process is touched: no garbage-collector setting, signal handler or logging. Who wants those uses the
command.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollgym.common import jsonx
from rollgym.common.errors import RollgymError
from rollgym.driver.config import DEFAULT_HEAD_URL, RolloutCollectionConfig
from rollgym.driver.config_loading import validated
from rollgym.driver.console import Console, silent_console
from rollgym.driver.fleet import HeadClient
from rollgym.driver.interruption import Interruption
from rollgym.driver.preparation import prepared
from rollgym.driver.run import Run
from rollgym.driver.run_report import RunReport


class IncompleteRun(RollgymError):
    """A run returned fewer results than were asked for; `report` tells how many and why."""

    code = "incomplete_run"

    report: RunReport | None = None
    """Gone once the error has crossed to another process; the counts are in `data`."""

    @classmethod
    def of(cls, report: RunReport) -> IncompleteRun:
        """The error for a run that ended as `report` says."""
        counts = report.counts
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(report.failures.items())) or "none failed"
        owed = counts.drained + counts.cancelled + counts.missing
        error = cls(
            f"{counts.succeeded + counts.masked} of {counts.owed} rollouts have a result: {counts.failed} failed "
            f"({reasons}), {owed} not run",
            **counts.model_dump(),
        )
        error.report = report
        return error


class RolloutCollectionHelper:
    """Collects rollouts with servers that are registered with a head."""

    async def run_from_config(self, config: RolloutCollectionConfig, *, console: Console | None = None) -> RunReport:
        """Run what `config` describes, artifacts included; `report.results` holds rows only if they are retained.

        Cancelling the call stops every rollout, closes its session and leaves artifacts that can be resumed.
        Raises ConfigurationError and HeadError before anything starts.
        """
        token = config.token.get_secret_value() if config.token else None
        async with prepared(config) as ready, HeadClient(config.head_url, token) as head:
            with silent_console() as silent:
                return await Run(config, ready, head, console or silent, Interruption()).collect()

    async def run_examples(
        self,
        examples: Sequence[Mapping[str, Any]],
        *,
        head_url: str = DEFAULT_HEAD_URL,
        in_input_order: bool = True,
        **settings: Any,
    ) -> list[dict[str, Any]]:
        """Run task rows that are in memory and return their results, in input order or as they came in.

        `settings` are those of `RolloutCollectionConfig`. With repeats, each example's results stand together.
        Raises IncompleteRun where a rollout has no result: a trainer never sees a batch that is silently short.
        """
        with tempfile.TemporaryDirectory(prefix="rollgym-") as folder:
            tasks = Path(folder) / "tasks.jsonl"
            tasks.write_bytes(b"".join(jsonx.dumps(example) + b"\n" for example in examples))
            own = {"input_jsonl_fpath": tasks, "output_jsonl_fpath": Path(folder) / "rollouts.jsonl"}
            defaults = {"head_url": head_url, "retain_results_in_memory": True, "metrics_port": None}
            if not examples:
                defaults["limit"] = 0
            report = await self.run_from_config(validated({**defaults, **settings, **own}))
        if not report.complete:
            raise IncompleteRun.of(report)
        positions = sorted(report.results) if in_input_order else list(report.results)
        return [report.results[position] for position in positions]
