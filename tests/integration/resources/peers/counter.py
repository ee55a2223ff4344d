"""Runs in the peer's own virtual environment: an MCP environment"""

from fastmcp import FastMCP
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Observation, State


class Counter(MCPEnvironment):
    """Counts to three; the third count is worth 1.0 and ends the episode."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        self._count = 0
        mcp = FastMCP("counter")

        @mcp.tool
        def count(by: int = 1) -> dict[str, int]:
            """Count further."""
            self._count += by
            return {"count": self._count}

        @mcp.tool
        def fail(reason: str) -> str:
            """Fail for a reason."""
            raise ValueError(reason)

        super().__init__(mcp)

    def reset(self, seed: int | None = None, episode_id: str | None = None, start: int = 0, **_: object) -> Observation:
        self._count = start
        return Observation(metadata={"seed": seed, "start": start})

    async def step_async(self, action, timeout_s=None, **options):  # type: ignore[no-untyped-def]
        observation = await super().step_async(action, timeout_s=timeout_s, **options)
        if isinstance(action, CallToolAction) and self._count >= 3:
            observation.reward, observation.done = 1.0, True
        return observation

    def _step_impl(self, action, timeout_s=None, **options):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    @property
    def state(self) -> State:
        return State(step_count=self._count)
