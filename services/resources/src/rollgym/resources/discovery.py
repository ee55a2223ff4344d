"""What tools an environment has: asked for once, on a session that has not begun, and remembered.

`GET /schema` is asked first, as it disturbs nobody. Where its action schema could not even hold
`{"type":"list_tools"}`, the environment has no tools and its action is the one tool, `step`. Anywhere else `list_tools`
is asked on the new socket before its reset, so that an environment that takes it for an action starts clean anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from rollgym.common import jsonx
from rollgym.common.logs import get_logger
from rollgym.common.tls import tls_context
from rollgym.resources import frames
from rollgym.resources.environments import Environment
from rollgym.resources.frames import ErrorFrame
from rollgym.resources.openenv_client import EpisodeSocket
from rollgym.resources.tools import RESERVED, Tool, ToolSet, step_tool
from rollgym.resources.verdicts import FrameError

log = get_logger(__name__)

SCHEMA_TIMEOUT_S = 2.0
UNANSWERED_SCHEMAS = 3


class Discovery:
    """The tools of one environment."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._asking = asyncio.Lock()
        self._schema: Mapping[str, Any] | None = None
        self._schema_settled = False
        self._unanswered = 0
        self.known: ToolSet | None = None

    def forget(self) -> None:
        """Ask again: the server went away, and may come back as another."""
        self.known, self._schema_settled, self._unanswered = None, False, 0

    async def prepare(self, socket: EpisodeSocket, timeout_s: float) -> ToolSet:
        """The environment's tools; `socket` is new, and its reset still to come.

        Raises what the socket met, as an opening does: `verdicts.judge` reads it.
        """
        if self.known is not None:
            return self.known
        await self._ask_schema()
        listed = None if self.known or self._rules_out_tools() else await self._listed(socket, timeout_s)
        if self.known is not None:  # somebody else, who asked at the same time, was told first
            return self.known
        tools = None if listed is None else [_tool(item) for item in listed]
        found = ToolSet(tools if tools is not None else [step_tool(self._schema)])
        if tools is not None or self._schema_settled:
            self.known = found
            log.info("tools known", env=self._environment.name, tools=found.names, over_mcp=tools is not None)
            if hidden := RESERVED & set(found.names):
                log.warning(
                    "tools are hidden by routes of this server", env=self._environment.name, tools=sorted(hidden)
                )
        return found

    async def _listed(self, socket: EpisodeSocket, timeout_s: float) -> list[dict[str, Any]] | None:
        """The tools that `list_tools` names; None where the environment knows no such thing."""
        answer = await socket.request(frames.LIST_TOOLS, timeout_s)
        if isinstance(answer, ErrorFrame):
            if answer.ends_session:
                raise FrameError(answer)
            return None
        observation = jsonx.loads(answer.observation)
        listed = observation.get("tools") if isinstance(observation, dict) else None
        if not isinstance(listed, list):
            return None
        return [item for item in listed if isinstance(item, dict) and isinstance(item.get("name"), str)] or None

    def _rules_out_tools(self) -> bool:
        schema = self._schema
        return (
            schema is not None
            and schema.get("additionalProperties") is False
            and "type" not in schema.get("properties", {})
            and bool(set(schema.get("properties", {})) - {"metadata"})
        )

    async def _ask_schema(self) -> None:
        """Learn the action's schema. A server that is busy is asked again with the next session, thrice at most."""
        async with self._asking:
            if self._schema_settled:
                return
            try:
                url = self._environment.schema_url
                verify = tls_context(url)
                async with httpx.AsyncClient(timeout=SCHEMA_TIMEOUT_S, trust_env=False, verify=verify) as client:
                    answer = await client.get(url)
            except httpx.HTTPError as error:
                self._unanswered += 1
                self._schema_settled = self._unanswered >= UNANSWERED_SCHEMAS
                log.info("no answer to /schema", env=self._environment.name, problem=f"{type(error).__name__}: {error}")
                return
            self._schema = _action_schema(answer)
            self._schema_settled = answer.status_code not in (429, 502, 503, 504)


def _action_schema(answer: httpx.Response) -> Mapping[str, Any] | None:
    if answer.status_code != 200:
        return None
    try:
        schemas = jsonx.loads(answer.content)
    except ValueError:
        return None
    action = schemas.get("action") if isinstance(schemas, dict) else None
    return action if isinstance(action, dict) and action else None


def _tool(listed: dict[str, Any]) -> Tool:
    schema = listed.get("input_schema", listed.get("inputSchema"))
    description = listed.get("description")
    return Tool(
        listed["name"],
        description if isinstance(description, str) else "",
        schema if isinstance(schema, dict) and schema else {"type": "object"},
        over_mcp=True,
    )
