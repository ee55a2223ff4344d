"""The aggregate at the end of a run: agent servers asked, then the file written, off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rollgym.common.errors import ArtifactError, ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.agent_answers import ask_agents
from rollgym.driver.evals.aggregate import ZeroRules, write_aggregate


async def aggregate_run(
    paths: ArtifactPaths, agent_urls: Mapping[str, str], zeros: ZeroRules | None = None
) -> list[str]:
    """Write `<stem>_aggregate_metrics.json`; returns remarks for the summary.

    A file that cannot be written is a remark, too: the results are whole, and `gym eval aggregate` makes it anew.
    """
    asked = await ask_agents(agent_urls, paths.results)
    try:
        found = await asyncio.to_thread(write_aggregate, paths, zeros=zeros, answers=asked.answers)
    except (ArtifactError, ConfigurationError) as error:
        return [*asked.remarks, f"no aggregate: {error.message} (gym eval aggregate --input {paths.results} retries)"]
    return [*asked.remarks, *found.remarks]
