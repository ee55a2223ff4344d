"""One session: an episode on an environment server, and the order in which calls on it are served.

Every change of state goes through this object, which alone has the episode in its hands.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from rollgym.common.errors import EnvLost, EnvProtocolError, RollgymError, SessionClosed, SessionReclaimed
from rollgym.common.logs import get_logger
from rollgym.resources.environments import Environment
from rollgym.resources.episode import Episode
from rollgym.resources.frames import ErrorFrame, Observation
from rollgym.resources.holding import Holding
from rollgym.resources.losing import UNANSWERED, loss, loss_kind, loss_told
from rollgym.resources.openenv_client import EpisodeSocket
from rollgym.resources.opening import OpenEpisode, Opener
from rollgym.resources.session_state import LIVE, CallResult, SessionHouse, SessionState
from rollgym.resources.signing import handle, new_session_id
from rollgym.resources.tools import Tool, ToolSet
from rollgym.resources.turns import Turns
from rollgym.resources.verify import Failure, Verification

log = get_logger(__name__)

CLOSE_ANSWER_S = 0.5


class Session:
    """One session. `begin` opens it; `call`, `verify` and `close` may come from any number of requests at once."""

    __slots__ = (
        "_episode",
        "_holding",
        "_house",
        "_opener",
        "_opening",
        "_opening_error",
        "_opening_waiters",
        "_turns",
        "_verification",
        "created_at",
        "failure",
        "id",
        "owner",
        "state",
        "tools",
        "was_open",
    )

    def __init__(self, opener: Opener, house: SessionHouse, reset: bytes, owner: str | None = None) -> None:
        self.id = new_session_id()
        self.owner = owner
        self.state = SessionState.OPENING
        self.failure: Failure | None = None
        self.was_open = False
        self.tools: ToolSet | None = None
        self.created_at = time.time()
        self._opener, self._house = opener, house
        self._holding = Holding(house.closers, house.metrics)
        self._turns = Turns()
        self._episode = Episode(opener.environment.reward_mode, reset, _now())
        self._verification: Verification | None = None
        self._opening: asyncio.Task[None] | None = None
        self._opening_error: RollgymError | None = None
        self._opening_waiters = 0

    @property
    def environment(self) -> Environment:
        return self._opener.environment

    @property
    def handle(self) -> str:
        return handle(self.id)

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def socket(self) -> EpisodeSocket | None:
        return self._holding.socket

    @property
    def opening(self) -> asyncio.Task[None] | None:
        """The task that opens the session."""
        return self._opening

    @property
    def steps(self) -> int:
        return self._episode.steps

    def take_initial(self) -> Observation | None:
        """The reset's observation, once: nothing keeps it after that."""
        return self._episode.take_initial()

    def idle_s(self) -> float:
        """Seconds since the last call ended; 0 while one is in flight or the session is opening."""
        return 0.0 if self.state is SessionState.OPENING else self._turns.idle_s()

    # Opening

    def begin(self) -> None:
        """Start to open. `opened` waits for it."""
        self._opening = asyncio.create_task(self._open(), name=f"open-{self.handle}")

    def refuse(self, error: RollgymError) -> None:
        """Never open: `error` says why."""
        self._opening_error = error
        self._lose(Failure(loss_kind(error), error.message), "never_opened")

    async def opened(self) -> None:
        """Wait until the session is open. Raises why it is not; when the last one who waits is cancelled, so is it."""
        assert self._opening is not None
        self._opening_waiters += 1
        try:
            await asyncio.wait({self._opening})
        finally:
            self._opening_waiters -= 1
            if not self._opening_waiters and not self._opening.done():
                await self._cancel_opening("the client went away while the session was opening")
        if self._opening_error is not None:
            raise self._opening_error
        if self._opening.cancelled():
            raise SessionClosed("the session was closed while it was opening")
        self._opening.result()
        self._require_live()

    async def _open(self) -> None:
        try:
            opened = await self._opener.reopened(self._episode.reset)
        except RollgymError as error:
            self.refuse(error)
            return
        except Exception:
            log.exception("opening failed", session=self.handle, env=self.environment.name)
            self.refuse(RollgymError("opening the session failed; the server's log says how"))
            return
        if self.state is not SessionState.OPENING:  # it ended in the instant in which the environment answered
            self._house.closers.close(opened.socket, opened.slot)
            return
        self._adopt(opened)
        self._episode.begin(opened.initial, _now())
        self.was_open = True

    def _adopt(self, opened: OpenEpisode) -> None:
        self._holding.take(opened, self._socket_lost)
        self.tools = opened.tools
        self._turns.restart_idling()
        self.state = SessionState.OPEN

    async def _cancel_opening(self, why: str) -> None:
        """Stop opening and wait until nothing of it is left."""
        assert self._opening is not None
        self._opening.cancel()
        await asyncio.wait({self._opening})
        self._lose(Failure("cancelled", why), "never_opened")

    # Calls

    async def call(self, name: str, body: bytes) -> CallResult:
        """Call a tool; `body`: the arguments as JSON text. What the environment says is a result, its errors included.

        Raises UnknownTool, BadRequest or InvalidArguments before anything is sent; SessionClosed or SessionReclaimed
        where the session or its episode is over; EnvLost, EnvProtocolError or PayloadTooLarge where it ends now. When
        cancelled during the step, the session is lost: its answer would come too late to be told apart.
        """
        if self.state is SessionState.OPENING:
            await self.opened()
        self._require_live()
        assert self.tools is not None
        tool = self.tools.named(name)
        arguments = tool.check(body)
        await self._turns.take()
        try:
            self._require_live()
            return await self._step(tool, arguments)
        finally:
            self._end_turn()

    async def _step(self, tool: Tool, arguments: bytes) -> CallResult:
        episode = self._episode
        if episode.done:
            raise SessionClosed("the episode is over: it takes no more steps", env=self.environment.name)
        self._require_unreaped()
        if self.socket is None or not self.socket.is_open:
            await self._reopen()
        assert self.socket is not None
        self.state = SessionState.BUSY
        episode.step_sent()
        answer = await self._answered(self.socket, tool.frame(arguments))
        self._require_live()
        if isinstance(answer, Observation):
            episode.step_answered(answer)
        elif not answer.of_the_environment:
            raise self._lost(*loss_told(answer))
        self._require_unreaped()
        episode.resume(_now())
        self.state = SessionState.OPEN
        return CallResult(tool.answer(answer), episode.done)

    async def _answered(self, socket: EpisodeSocket, frame: bytes) -> Observation | ErrorFrame:
        """Send a step, once. Whatever keeps its answer away ends the session."""
        if socket.has_unread_frame:
            raise self._lost(EnvProtocolError, "the environment server sent a frame that nobody asked for")
        limits = self._house.limits
        try:
            return await socket.request(frame, limits.step_timeout_s)
        except UNANSWERED as error:
            most = self._opener.limits.socket.max_frame_bytes
            raise self._lost(*loss(error, step_timeout_s=limits.step_timeout_s, max_frame_bytes=most)) from error
        except asyncio.CancelledError:
            self._lose(Failure("cancelled", "the client went away during a step"))
            raise

    async def _reopen(self) -> None:
        """Open the episode again on a new socket: only before its first step, and only where it is the same episode."""
        if self._episode.steps:
            raise self._lost(EnvLost, "the connection closed between two steps")
        self._holding.drop()
        log.info("reopening before the first step", session=self.handle, env=self.environment.name)
        try:
            opened = await self._opener.reopened(self._episode.reset)
        except RollgymError as error:
            self._lose(Failure(loss_kind(error), error.message))
            raise
        if not self.is_live or not self._episode.is_had_again(opened.initial):
            self._house.closers.close(opened.socket, opened.slot)
            raise self._lost(EnvLost, "lost before its first step, and another episode came in its place")
        self._adopt(opened)
        self._episode.resume(_now())

    def _require_live(self) -> None:
        if self.state in LIVE:
            return
        if self.state is SessionState.RECLAIMED:
            raise SessionReclaimed(self.failure.reason if self.failure else "reclaimed", env=self.environment.name)
        told = f": {self.failure.reason}" if self.failure else ""
        kind = {"failure_kind": self.failure.kind} if self.failure else {}
        raise SessionClosed(f"the session is {self.state.value}{told}", env=self.environment.name, **kind)

    def _require_unreaped(self) -> None:
        """A pause longer than the environment server's own timeout: it may have put another episode in this place."""
        timeout_s = self.environment.session_timeout_s
        paused_s = self._episode.paused_s(_now())
        if timeout_s is None or paused_s <= timeout_s:
            return
        reason = (
            f"{paused_s:.1f} s between finished steps: the environment server may have reaped the session"
            f" after {timeout_s:g} s"
        )
        self._lose(Failure("session_reclaimed", reason))
        raise SessionReclaimed(reason, env=self.environment.name)

    def _end_turn(self) -> None:
        if self.state is SessionState.BUSY:
            self.state = SessionState.OPEN
        self._turns.end()

    # Endings

    async def verify(self) -> Verification:
        """The session's reward, or why it has none, and the session's end; the same result every time.

        Raises SessionClosed where the session was closed without a verify before.
        """
        if self.state is SessionState.OPENING:
            with contextlib.suppress(RollgymError):
                await self.opened()
        await self._turns.take()
        try:
            if self._verification is None:
                self._verification = self._verified()
            return self._verification
        finally:
            self._end_turn()

    def _verified(self) -> Verification:
        if self.state in (SessionState.CLOSING, SessionState.CLOSED):
            raise SessionClosed("the session is closed: it was never verified", env=self.environment.name)
        if self.is_live and self.socket is None and not self._episode.done:
            self._lose(Failure("env_lost", "the connection closed before the first step"))
        result = self._episode.verification(self.failure)
        self._house.metrics.verified(result.outcome)
        self._close("verified")
        return result

    async def close(self) -> bool:
        """End the session; True where this call did it. Waits for its turn, for a while; never for a slow handshake."""
        if self.state is SessionState.OPENING:
            await self._cancel_opening("the session was closed while it was opening")
            self.state = SessionState.CLOSED
            return True
        if not self.is_live:
            return False
        in_turn = await self._turns.take_within(self._house.limits.close_wait_s)
        closing = self._close("closed")  # out of turn, the socket goes under the call ahead of us
        if in_turn:
            self._turns.end()
        if closing is not None:
            await asyncio.wait({closing}, timeout=CLOSE_ANSWER_S)
        return closing is not None

    def reclaim(self, idle_s: float) -> None:
        """End the session because nobody used it."""
        reason = f"reclaimed after {idle_s:.1f} s without a call"
        log.info("session reclaimed", session=self.handle, env=self.environment.name, idle_s=round(idle_s, 1))
        self.failure = Failure("session_reclaimed", reason)
        self._close("reclaimed", into=SessionState.RECLAIMED)

    def abandon(self) -> None:
        """End the session, whatever it does, because whoever seeded it is gone."""
        reason = "the client that seeded it is gone"
        log.info("session abandoned", session=self.handle, env=self.environment.name)
        if self.state is SessionState.OPENING and self._opening is not None:
            self._opening.cancel()
            self._lose(Failure("cancelled", reason), "never_opened")
            return
        self.failure = Failure("session_reclaimed", reason)
        self._close("abandoned", into=SessionState.RECLAIMED)

    def shut_down(self) -> None:
        """End the session because this process ends."""
        if self.state is SessionState.OPENING and self._opening is not None:
            self._opening.cancel()
            self._lose(Failure("cancelled", "the server stopped while the session was opening"), "never_opened")
        self._close("shutdown")

    def _close(self, reason: str, into: SessionState = SessionState.CLOSING) -> asyncio.Task[None] | None:
        """Let go of the episode, politely, in the background."""
        if not self.is_live:
            return None
        self.state = into
        closing = self._holding.close()
        if closing is not None:
            closing.add_done_callback(self._closed)
        else:
            self._closed(None)
        self._ended(reason)
        return closing

    def _closed(self, _: object) -> None:
        if self.state is SessionState.CLOSING:
            self.state = SessionState.CLOSED

    def _lost(self, kind: type[RollgymError], reason: str) -> RollgymError:
        """End the session as lost; the error to raise for the call that found it out."""
        if not self.is_live:  # closed or reclaimed meanwhile: that is why the socket went
            return SessionClosed(f"the session is {self.state.value}", env=self.environment.name)
        error = kind(f"{self.environment.name}: {reason}", env=self.environment.name, steps=self.steps)
        self._lose(Failure(loss_kind(error), reason))
        return error

    def _lose(self, failure: Failure, reason: str = "lost") -> None:
        if not self.is_live:
            return
        self.state, self.failure = SessionState.LOST, failure
        self._holding.drop()
        log.info(
            "session lost", session=self.handle, env=self.environment.name, kind=failure.kind, reason=failure.reason
        )
        self._ended(reason)

    def _socket_lost(self) -> None:
        """The socket ended by itself. During a step the caller finds out; before the first one it may be had again."""
        if self.state is SessionState.BUSY:
            return
        self._holding.drop()
        if self._episode.steps:
            self._lose(Failure("env_lost", "the connection closed between two steps"))

    def _ended(self, reason: str) -> None:
        self._episode.take_initial()
        self.tools = None
        self._house.metrics.session_ended(reason)
        self._house.ended(self)


def _now() -> float:
    return asyncio.get_running_loop().time()
