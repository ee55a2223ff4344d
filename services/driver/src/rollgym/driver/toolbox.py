"""The tools that one rollout's model may call, and how the calls of one turn are made.

What a tool says, its errors and complaints included, is an output for the model. Only a lost session is an error.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from rollgym.common import jsonx
from rollgym.common.errors import RollgymError
from rollgym.driver.policies.items import ItemHead, read_head
from rollgym.driver.policies.protocol import CallClock
from rollgym.driver.resources_client import RESERVED_PATHS, ResourcesSession, ToolAnswer
from rollgym.driver.trajectory import ToolEvent, ToolStatus


class ToolObserver(Protocol):
    """Hears of each tool call as it ends."""

    def tool_called(self, duration_s: float, status: str) -> None: ...


class Toolbox:
    """The tools that one rollout's model may call, and how the calls of a turn are made."""

    def __init__(
        self, session: ResourcesSession, tools: Sequence[bytes], parallel: int, observer: ToolObserver
    ) -> None:
        self._session = session
        self._names = tuple(read_head(tool).name for tool in tools)
        self._slots = asyncio.Semaphore(parallel)
        self._observer = observer

    async def run(self, calls: Sequence[ItemHead]) -> tuple[list[ToolEvent], bool]:
        """Make one turn's calls together. Gives their outputs in call order, and whether the episode is over.

        Raises the error of the call that lost the session; the others are cancelled.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._observed(call)) for call in calls]
        except BaseExceptionGroup as failures:
            lost = failures.subgroup(RollgymError)
            if lost is None:
                raise
            raise _first(lost) from failures
        outcomes = [task.result() for task in tasks]
        return [event for event, _ in outcomes], any(done for _, done in outcomes)

    async def _observed(self, call: ItemHead) -> tuple[ToolEvent, bool]:
        async with self._slots:
            clock = CallClock()
            status: ToolStatus = "cancelled"
            try:
                answer = await self._call(call)
                status = "completed" if answer.ok else "failed"
            except RollgymError:
                status = "failed"
                raise
            finally:
                timing = clock.stop()
                self._observer.tool_called(timing.duration_s, status)
            event = ToolEvent(
                call_id=call.call_id,
                tool_name=call.name,
                timing=timing,
                status=status,
                output=answer.text,
                error_type=answer.error_type,
            )
            return event, answer.done

    async def _call(self, call: ItemHead) -> ToolAnswer:
        # Where no tool is known, any may be meant, but no path of two segments: `owners%2Fx` is read as `owners/x`.
        unknown = call.name not in self._names and (self._names or "/" in call.name)
        if unknown or call.name in RESERVED_PATHS:
            known = ", ".join(self._names) or "none"
            return _told(f"there is no tool {call.name!r}; the tools are: {known}", "unknown_tool")
        try:
            arguments = jsonx.loads(call.arguments or "{}")
        except ValueError as error:
            return _told(f"the arguments are no JSON ({error}): give one JSON object", "invalid_arguments")
        if not isinstance(arguments, dict):
            return _told("the arguments must be one JSON object", "invalid_arguments")
        return await self._session.call_tool(call.name, jsonx.dumps(arguments))


def _told(problem: str, error_type: str) -> ToolAnswer:
    """An output that tells the model what was wrong with its call."""
    return ToolAnswer(jsonx.dumps({"error": problem}).decode(), ok=False, error_type=error_type)


def _first(group: BaseExceptionGroup[RollgymError]) -> RollgymError:
    """The first error in a group that may hold groups."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
