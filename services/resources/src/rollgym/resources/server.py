"""Everything of a resources server but HTTP: what its sessions share, and what runs while it serves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from rollgym.common.errors import EnvBusy
from rollgym.common.logs import get_logger
from rollgym.resources.admission import Gate
from rollgym.resources.book import SessionBook
from rollgym.resources.closing import Closers
from rollgym.resources.discovery import Discovery
from rollgym.resources.environments import Environment, Environments
from rollgym.resources.keepalive import Keepalive
from rollgym.resources.metrics import ResourcesMetrics
from rollgym.resources.openenv_client import SocketLimits
from rollgym.resources.opening import Opener, OpeningLimits
from rollgym.resources.owners import Owners
from rollgym.resources.session_state import SessionLimits
from rollgym.resources.settings import ResourcesSettings
from rollgym.resources.signing import Signer
from rollgym.resources.tools import ToolSet

log = get_logger(__name__)

LOOK_S = 2.0
FEW_SESSIONS = 2048


@dataclass(frozen=True)
class EnvironmentDoor:
    """One environment with its queue, its tools and its way in."""

    environment: Environment
    gate: Gate
    discovery: Discovery
    opener: Opener


class ResourcesServer:
    """Everything of one server but HTTP. Built inside the running loop; `serving` surrounds its life."""

    def __init__(self, settings: ResourcesSettings, metrics: ResourcesMetrics, *, max_sessions: int) -> None:
        self.settings, self.metrics, self._max_sessions = settings, metrics, max_sessions
        self.environments = Environments(settings.environments())
        key = settings.signing_key.get_secret_value() if settings.signing_key else None
        self.signer = Signer(key)
        self.closers = Closers(settings.close_timeout_s)
        self.book = SessionBook(
            self.closers,
            metrics,
            SessionLimits(settings.step_timeout_s, settings.close_wait_s),
            max_sessions=max_sessions,
            remembered=settings.remembered_sessions,
        )
        self.owners = Owners(self.book.abandon, settings.owner_grace_s, unused_s=self.book.unused_s)
        self._limits = OpeningLimits(
            settings.connect_timeout_s,
            settings.reset_timeout_s,
            settings.patience,
            SocketLimits(settings.max_frame_bytes, settings.close_timeout_s),
        )
        self.doors = {environment.name: self._door(environment) for environment in self.environments}

    def _door(self, environment: Environment) -> EnvironmentDoor:
        gate = Gate(max_handshakes=self.settings.max_handshakes)
        discovery = Discovery(environment)
        opener = Opener(environment, gate, self._limits, discovery, self.metrics)
        return EnvironmentDoor(environment, gate, discovery, opener)

    @property
    def waiting(self) -> int:
        """Clients that wait for a session to open."""
        return sum(door.gate.waiting for door in self.doors.values())

    def stop_intake(self) -> None:
        """No new sessions; those that wait for one are told."""
        self.book.stop_intake()
        self.owners.close()
        for door in self.doors.values():
            door.gate.close(EnvBusy("this server is stopping", retry_after_s=5))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Reclaims and pings while it lasts; at its end every session is closed, all at once."""
        settings = self.settings
        for warning in self.environments.warnings(
            idle_timeout_s=settings.idle_timeout_s, step_timeout_s=settings.step_timeout_s
        ):
            log.warning(warning)
        if settings.max_sessions is None and self._max_sessions < FEW_SESSIONS:
            log.warning("few open files: past so many sessions seeds are refused", max_sessions=self._max_sessions)
        tasks = [asyncio.create_task(self.book.reclaim_idle(settings.idle_timeout_s), name="reclaim")]
        if settings.ping_interval_s:
            keepalive = Keepalive(
                self.book.sockets, interval_s=settings.ping_interval_s, timeout_s=settings.pong_timeout_s
            )
            tasks.append(asyncio.create_task(keepalive.run(), name="keepalive"))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            open_sessions = len(self.book)
            self.stop_intake()
            await self.book.shut_down()
            await self.closers.finished()
            log.info("all sessions closed", sessions=open_sessions)

    async def tools_of(self, door: EnvironmentDoor) -> ToolSet:
        """An environment's tools; where nobody knows them yet, a short session is opened to ask.

        Raises the error that opening met.
        """
        return door.discovery.known or await door.opener.asked_for_tools()

    async def look_at_environments(self) -> dict[str, str]:
        """For each environment "ok" where its port takes connections, else what happened."""
        looks = await asyncio.gather(*(self._look(environment) for environment in self.environments))
        return dict(zip(self.environments.names, looks, strict=True))

    async def _look(self, environment: Environment) -> str:
        try:
            async with asyncio.timeout(LOOK_S):
                _, writer = await asyncio.open_connection(*environment.address)
        except (OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}" if str(error) else f"no answer within {LOOK_S:g} s"
        writer.transport.abort()
        return "ok"

    def registration_metadata(self) -> dict[str, Any]:
        """What the head is told with each heartbeat."""
        return {
            "envs": self.environments.names,
            "sessions_open": len(self.book),
            "sessions_waiting": self.waiting,
            "max_sessions": self.settings.max_sessions,
            "tools": False,
        }
