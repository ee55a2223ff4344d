"""Before anything starts: what a run can be refused for without any server, and its output taken for this driver alone.

Names of environments and agents are not checked here, since only servers know them (`plan.check_names`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rollgym.driver.artifacts.lock import output_lock
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.plan import check_output, survey_of
from rollgym.driver.policies import create_policy
from rollgym.driver.tasks import TaskSurvey
from rollgym.driver.telemetry import metrics_socket


@dataclass(frozen=True)
class Prepared:
    """A run that may begin: what its task file holds, and the socket of its `/metrics` (None where turned off)."""

    survey: TaskSurvey
    listener: socket.socket | None


@contextlib.asynccontextmanager
async def prepared(config: RolloutCollectionConfig) -> AsyncIterator[Prepared]:
    """Check policy, task file, output and port; the output's lock and the socket are held for the block.

    Raises ConfigurationError; makes the output's folder and, while it lasts, the lock, and touches no file of an
    earlier run.
    """
    create_policy(config.policy)
    survey = await asyncio.to_thread(survey_of, config)
    with metrics_socket(config) as listener, output_lock(ArtifactPaths(config.output_jsonl_fpath).lock):
        check_output(config, survey)
        yield Prepared(survey, listener)
