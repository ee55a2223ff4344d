"""Opening a session on an environment server, within patience: `reopened` tries until it is open, or waiting is over.

An attempt is: leave from the gate, a handshake, what tools there are (where nobody knows yet), a reset.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field

from rollgym.common.errors import EnvBusy, EnvRefused, RollgymError
from rollgym.common.logs import get_logger
from rollgym.common.redaction import redact_text
from rollgym.resources import frames
from rollgym.resources.admission import Gate, Place, Slot
from rollgym.resources.discovery import Discovery
from rollgym.resources.environments import Environment
from rollgym.resources.frames import ErrorFrame, Observation
from rollgym.resources.metrics import ResourcesMetrics
from rollgym.resources.openenv_client import EpisodeSocket, SocketLimits
from rollgym.resources.tools import ToolSet
from rollgym.resources.verdicts import FrameError, Verdict, judge

log = get_logger(__name__)


@dataclass(frozen=True)
class OpeningLimits:
    """Seconds that a handshake, a reset, and opening as a whole may take, and the bounds of the socket itself."""

    connect_timeout_s: float
    reset_timeout_s: float
    patience_s: float
    socket: SocketLimits


@dataclass(frozen=True)
class OpenEpisode:
    """A session that is open: its socket, the slot that it holds, the reset's answer, the tools it offers."""

    socket: EpisodeSocket
    slot: Slot
    initial: Observation
    tools: ToolSet
    attempts: int
    waited_s: float


@dataclass
class Opener:
    """Opens the sessions of one environment."""

    environment: Environment
    gate: Gate
    limits: OpeningLimits
    discovery: Discovery
    metrics: ResourcesMetrics
    _was_reached: bool = field(default=False, init=False)

    async def reopened(self, reset: bytes, *, patience_s: float | None = None) -> OpenEpisode:
        """An open session, its reset (`reset`: the arguments as JSON text) answered.

        Whatever means "busy" is tried again within patience, waiting included; raises EnvBusy with the attempts, the
        seconds waited and the last cause when that is spent, and what the verdict says at once for whatever means
        "wrong". When cancelled, the place in the queue is given up, and an attempt's socket dropped.
        """
        patience_s = self.limits.patience_s if patience_s is None else patience_s
        started = self.gate.now()
        attempts, last = 0, "no slot was free"
        with self.gate.place() as place, self.metrics.waiting():
            while True:
                slot = await self._admitted(place, started + patience_s, patience_s)
                if slot is None:
                    raise self._busy(attempts, self.gate.now() - started, last)
                attempts += 1
                opened = await self._attempt(slot, reset, self._left_s(started, patience_s))
                if not isinstance(opened, Verdict):
                    socket, initial, tools = opened
                    waited_s = self.gate.now() - started
                    self.metrics.opened(waited_s)
                    return OpenEpisode(socket, slot, initial, tools, attempts, waited_s)
                if not opened.busy:
                    raise self._told(opened, attempts, self.gate.now() - started)
                place.failed(opened)
                last = opened.cause
                if patience_s == 0:
                    raise self._busy(attempts, self.gate.now() - started, last)

    def _left_s(self, started: float, patience_s: float) -> float:
        """Seconds left; without any patience, the one attempt has its own timeouts alone."""
        return self.limits.reset_timeout_s if patience_s == 0 else max(0.001, started + patience_s - self.gate.now())

    async def _admitted(self, place: Place, deadline: float, patience_s: float) -> Slot | None:
        if patience_s == 0:
            return place.try_now()
        try:
            async with asyncio.timeout_at(deadline):
                return await place.admitted()
        except TimeoutError:
            return None

    async def _attempt(
        self, slot: Slot, reset: bytes, left_s: float
    ) -> tuple[EpisodeSocket, Observation, ToolSet] | Verdict:
        """One attempt. What it met is a verdict, and then nothing of it is left; cancellation leaves nothing too."""
        socket: EpisodeSocket | None = None
        verdict: Verdict | None = None
        opened: tuple[EpisodeSocket, Observation, ToolSet] | None = None
        try:
            async with asyncio.timeout(left_s):
                connect_s = min(self.limits.connect_timeout_s, left_s)
                socket = await EpisodeSocket.connected(self.environment.ws_url, self.limits.socket, connect_s)
                slot.shook_hands()
                tools = await self.discovery.prepare(socket, min(self.limits.reset_timeout_s, left_s))
                initial = await socket.request(frames.reset_frame(reset), min(self.limits.reset_timeout_s, left_s))
                if isinstance(initial, ErrorFrame):
                    raise FrameError(initial)
                opened = socket, initial, tools
        except Exception as error:
            verdict = self._judged(error)
            log.debug("attempt failed", env=self.environment.name, busy=verdict.busy, cause=verdict.cause)
        finally:
            if opened is None:
                if socket is not None:
                    socket.drop()
                slot.release(verdict)
        if opened is None:
            assert verdict is not None
            self.metrics.attempted("busy" if verdict.busy else "wrong")
            if verdict.kind is EnvRefused:
                self.discovery.forget()  # what comes back at this address may be another server
            return verdict
        self._was_reached = True
        slot.confirm()
        self.metrics.attempted("opened")
        return opened

    def _judged(self, error: Exception) -> Verdict:
        """The verdict; a server that was there before is waited for where only the way to it is lost."""
        verdict = judge(error)
        return dataclasses.replace(verdict, busy=True) if verdict.out_of_reach and self._was_reached else verdict

    async def asked_for_tools(self) -> ToolSet:
        """The environment's tools, asked on a socket of their own. Raises what the one attempt met."""
        timeout_s = self.limits.connect_timeout_s
        socket: EpisodeSocket | None = None
        try:
            socket = await EpisodeSocket.connected(self.environment.ws_url, self.limits.socket, timeout_s)
            return await self.discovery.prepare(socket, timeout_s)
        except Exception as error:
            raise self._told(judge(error), 1, 0.0) from error
        finally:
            if socket is not None:
                await socket.close(self.limits.socket.close_timeout_s)

    def _told(self, verdict: Verdict, attempts: int, waited_s: float) -> RollgymError:
        data: dict[str, object] = {"env": self.environment.name, "attempts": attempts, "waited_s": round(waited_s, 3)}
        if verdict.kind.code == "payload_too_large":
            data["max_frame_bytes"] = self.limits.socket.max_frame_bytes
            return verdict.kind(f"{verdict.cause}; the limit is max_frame_bytes", **data)
        where = redact_text(self.environment.base_url)
        return verdict.kind(f"{self.environment.name} at {where}: {verdict.cause}", **data)

    def _busy(self, attempts: int, waited_s: float, last: str) -> EnvBusy:
        return EnvBusy(
            f"{self.environment.name} stayed busy for {waited_s:.1f} s ({attempts} attempts); last: {last}",
            env=self.environment.name,
            attempts=attempts,
            waited_s=round(waited_s, 3),
            last_cause=last,
            retry_after_s=self.gate.retry_after_s(),
        )
