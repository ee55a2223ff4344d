"""One WebSocket session: its environment, its slot, its requests one after another, its end. One owner: `run`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NoReturn

from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from rollgym.common.logs import get_logger
from rollgym.env_bundle import frames, injection, json_rpc
from rollgym.env_bundle.alarms import Alarms
from rollgym.env_bundle.bundle import Bundle
from rollgym.env_bundle.environment import Environment, EpisodeError
from rollgym.env_bundle.faults import FaultKind, Phase
from rollgym.env_bundle.frames import BadFrame, ErrorCode, FrameRequest, RequestType
from rollgym.env_bundle.registry import EnvironmentType
from rollgym.env_bundle.slots import AtCapacity, Slot
from rollgym.env_bundle.wire import wire_of

log = get_logger(__name__)

NORMAL = 1000
GOING_AWAY = 1001
INTERNAL_ERROR = 1011
CLOSE_HANDSHAKE_S = 10.0
CLIENT_GONE = (ClientDisconnected, WebSocketDisconnect)
ACTIVITY = frozenset({RequestType.RESET, RequestType.STEP, RequestType.MCP})
"""Requests that keep OpenEnv's own reaper away; `state` does not."""


class SessionEnd(Exception):
    """The session is over; `reason` is one of a few words, for the counts."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


class Session:
    """A session from the upgrade on. Whatever ends it, environment and slot are given back before `run` returns."""

    def __init__(self, bundle: Bundle, kind: EnvironmentType, websocket: WebSocket) -> None:
        self.bundle, self.wire = bundle, wire_of(websocket.scope)
        self._kind, self._websocket = kind, websocket
        self._slot: Slot | None = None
        self._environment: Environment[Any] | None = None
        self._alarms = Alarms()
        self._steps = bundle.metrics.steps.labels(kind.name)

    async def run(self) -> None:
        """Serve the session to its end; a lost socket ends it wherever it is."""
        ending = SessionEnd("lost")
        try:
            async with asyncio.timeout(None) as alive:
                self.wire.when_lost(lambda: None if alive.expired() else alive.reschedule(0))
                await self._live()
        except SessionEnd as end:
            ending = end
        except (TimeoutError, *CLIENT_GONE):
            pass  # the socket is gone
        except Exception as bug:
            log.exception("a session failed", env=self._kind.name)
            ending = await self._apologize(bug)
        finally:
            self.wire.when_lost(lambda: None)
            self._give_back(ending.reason)
        if ending.code is not None:
            await self._close(ending.code, ending.reason)

    async def _live(self) -> None:
        await self._open()
        while True:
            await self._serve(await self._next_message())

    # Opening.

    async def _open(self) -> None:
        self.bundle.stats.handshakes += 1
        fault = self.bundle.draw(Phase.HANDSHAKE, self._kind.name)
        if fault is not None:
            await injection.at_handshake(self, fault)
        await self.accept()
        if fault is not None and fault.kind is FaultKind.AT_CAPACITY:
            await self._refuse(self.bundle.slots.in_use, self.bundle.slots.limit or self.bundle.slots.in_use)
        if fault is not None and fault.kind is FaultKind.DROP_AFTER:
            self.drop()
        await self._take_slot()
        self._environment = await self._make_environment()
        self.bundle.faults.on_change.add(self._faults_changed)
        self.bundle.stats.opens += 1
        self.bundle.metrics.sessions.labels(self._kind.name).inc()
        if self.bundle.idle_timeout_s is not None:
            self._alarms.set("idle-timeout", self.bundle.idle_timeout_s, self._reap)
        if fault is not None and fault.kind is FaultKind.REAP_SLOT:
            self._alarms.set("reap-slot", fault.lasts_s, self._lose_slot)

    async def _take_slot(self) -> None:
        try:
            self._slot = self.bundle.slots.acquire()
        except AtCapacity as full:
            await self._refuse(full.active, full.limit)

    async def _make_environment(self) -> Environment[Any]:
        try:
            return self._kind()
        except Exception as error:
            log.exception("an environment could not be made", env=self._kind.name)
            message = f"{type(error).__name__}: {error}"
            await self._last_words(ErrorCode.FACTORY_ERROR, message, factory_name=self._kind.__name__)

    async def accept(self) -> None:
        """Answer the upgrade with 101."""
        await self._websocket.receive()
        await self._websocket.send({"type": "websocket.accept"})

    async def refuse_upgrade(self, status: int, retry_after_s: int | None) -> NoReturn:
        """Answer the upgrade with an HTTP status."""
        headers = [] if retry_after_s is None else [(b"retry-after", str(retry_after_s).encode())]
        await self._websocket.send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await self._websocket.send({"type": "websocket.http.response.body", "body": b"injected fault\n"})
        raise SessionEnd(f"http-{status}")

    async def _refuse(self, active: int, limit: int) -> NoReturn:
        self.bundle.stats.refused += 1
        self.bundle.metrics.refused.labels(self._kind.name).inc()
        message = f"Server at capacity: {active}/{limit} sessions active"
        await self._last_words(ErrorCode.CAPACITY_REACHED, message, active_sessions=active, max_sessions=limit)

    async def _last_words(self, code: ErrorCode, message: str, **data: Any) -> NoReturn:
        await self.wire.send_frame(frames.error(code, message, **data))
        raise SessionEnd(code.lower(), NORMAL)

    # Requests.

    async def _next_message(self) -> str | bytes:
        self._watch_for_idle_faults()
        try:
            message = await self._alarms.sounding_during(self._websocket.receive)
        finally:
            self._alarms.clear("fault")
        if message["type"] == "websocket.disconnect":
            raise SessionEnd("client")
        text: str | None = message.get("text")
        return text if text is not None else message["bytes"]

    def _watch_for_idle_faults(self) -> None:
        delay_s = self.bundle.faults.idle_delay_s(self._kind.name)
        if delay_s is not None:
            self._alarms.set("fault", delay_s, self._idle_fault)

    def _faults_changed(self) -> None:
        if self._alarms.listening:
            self._alarms.clear("fault")
            self._watch_for_idle_faults()

    async def _idle_fault(self) -> None:
        fault = self.bundle.draw(Phase.IDLE, self._kind.name)
        if fault is not None:
            await injection.while_idle(self, fault)

    async def _serve(self, raw: str | bytes) -> None:
        try:
            if isinstance(raw, bytes):
                raise BadFrame(ErrorCode.INVALID_JSON, "Invalid JSON: requests are text frames")
            request = frames.read_request(raw)
        except BadFrame as bad:
            await self.wire.send_frame(bad.frame())
            return
        fault = self.bundle.draw(Phase(request.type), self._kind.name)
        if fault is not None:
            await injection.at_request(self, fault, request)
        else:
            await self.answer(request)
        self._alarms.restart("idle-timeout")
        if request.type in ACTIVITY:
            await self._alarms.sound_if_due("reap-slot")
            self._alarms.restart("reap-slot")

    async def answer(self, request: FrameRequest) -> None:
        """Carry a request out and send the answer; `close` ends the session."""
        if request.type is RequestType.CLOSE:
            raise SessionEnd("closed", NORMAL)
        await self.wire.send_frame(await self.carry_out(request))

    async def carry_out(self, request: FrameRequest) -> bytes:
        """What a request is answered with: the environment's answer, or an error frame. Never raises for either."""
        try:
            frame = await self._ask_environment(request)
        except ValidationError as wrong:
            return frames.validation_error(wrong)
        except EpisodeError as refused:
            return frames.error(ErrorCode.EXECUTION_ERROR, str(refused))
        except Exception as broken:
            log.exception("an environment failed", env=self._kind.name, request=request.type)
            return frames.error(ErrorCode.EXECUTION_ERROR, f"{type(broken).__name__}: {broken}")
        if len(frame) > self.bundle.max_frame_bytes:
            limit = self.bundle.max_frame_bytes
            message = f"the answer has {len(frame)} bytes, more than the {limit} of max_frame_bytes"
            return frames.error(ErrorCode.EXECUTION_ERROR, message, size=len(frame), max_frame_bytes=limit)
        return frame

    async def _ask_environment(self, request: FrameRequest) -> bytes:
        environment = self._environment
        assert environment is not None
        match request.type:
            case RequestType.RESET:
                self.bundle.stats.resets += 1
                return frames.observation(await environment.begin(request.data))
            case RequestType.STEP:
                self._count_step()
                return frames.observation(await environment.act(request.data))
            case RequestType.MCP:
                return frames.mcp(await json_rpc.answer(environment, request.data))
            case _:
                return frames.state(environment.state())

    def _count_step(self) -> None:
        self.bundle.stats.steps += 1
        self._steps.inc()
        if self._slot is not None and not self._slot.held:
            self.bundle.stats.zombie_steps += 1

    # Ends.

    def drop(self) -> NoReturn:
        """End the session by dropping its connection."""
        self.wire.drop()
        raise SessionEnd("dropped")

    def reset_by_peer(self) -> NoReturn:
        """End the session with a TCP reset."""
        self.wire.reset_by_peer()
        raise SessionEnd("tcp-reset")

    async def _reap(self) -> NoReturn:
        raise SessionEnd("idle-timeout", GOING_AWAY)

    async def _lose_slot(self) -> None:
        if self._slot is not None:
            self._slot.release()

    def _give_back(self, reason: str) -> None:
        self.bundle.faults.on_change.discard(self._faults_changed)
        if self._environment is not None:
            try:
                self._environment.close()
            except Exception:
                log.exception("an environment's close failed", env=self._kind.name)
            self._environment = None
        if self._slot is not None:
            self._slot.release()
        self.bundle.stats.closes[reason] += 1
        log.debug("session ended", env=self._kind.name, reason=reason)

    async def _apologize(self, bug: Exception) -> SessionEnd:
        """Tell the client that this server failed, where it can still be told."""
        with contextlib.suppress(*CLIENT_GONE):
            await self.wire.send_frame(frames.error(ErrorCode.SESSION_ERROR, f"{type(bug).__name__}: {bug}"))
        return SessionEnd("session_error", INTERNAL_ERROR)

    async def _close(self, code: int, reason: str) -> None:
        """Send the close frame. The protocol waits for the client's, bounded; nobody waits for that here."""
        try:
            await self._websocket.send({"type": "websocket.close", "code": code, "reason": reason})
        except (*CLIENT_GONE, RuntimeError):
            return  # the client was faster
        self.wire.abandon_after(CLOSE_HANDSHAKE_S)
