"""The aggregate at the end of a run: agent servers asked, then the file written, off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from rollgym.common.errors import ArtifactError, ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.agent_answers import AgentAnswers, ask_agents
from rollgym.driver.evals.aggregate import ZeroRules, write_aggregate


async def aggregate_run(
    paths: ArtifactPaths,
    agent_urls: Mapping[str, str],
    zeros: ZeroRules | None = None,
    on_asking: Callable[[asyncio.Task[AgentAnswers]], object] = lambda _: None,
) -> list[str]:
    """Write `<stem>_aggregate_metrics.json`; returns remarks for the summary.

    `on_asking` is given the task that waits for agent servers: cancelled, the aggregate is written without them.
    A file that cannot be written is a remark, too: the results are whole, and `gym eval aggregate` makes it anew.
    """
    asked = await _asked(agent_urls, paths, on_asking) if agent_urls else AgentAnswers()
    try:
        found = await asyncio.to_thread(write_aggregate, paths, zeros=zeros, answers=asked.answers)
    except (ArtifactError, ConfigurationError) as error:
        return [*asked.remarks, f"no aggregate: {error.message} (gym eval aggregate --input {paths.results} retries)"]
    return [*asked.remarks, *found.remarks]


async def _asked(
    agent_urls: Mapping[str, str], paths: ArtifactPaths, on_asking: Callable[[asyncio.Task[AgentAnswers]], object]
) -> AgentAnswers:
    asking = asyncio.create_task(ask_agents(agent_urls, paths.results), name="ask-agents")
    on_asking(asking)
    try:
        await asyncio.wait({asking})
    finally:
        asking.cancel()
        await asyncio.wait({asking})
    if asking.cancelled():
        return AgentAnswers(remarks=["the agent servers' own aggregates were not waited for"])
    return asking.result()
