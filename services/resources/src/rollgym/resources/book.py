"""All sessions of this process: found by id or by their caller's own id, limited in number, remembered when over."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from rollgym.common.errors import EnvBusy, RollgymError, ServerFull, SessionConflict, SessionUnknown
from rollgym.resources.closing import Closers
from rollgym.resources.metrics import ResourcesMetrics
from rollgym.resources.openenv_client import EpisodeSocket
from rollgym.resources.opening import Opener
from rollgym.resources.session_state import SessionHouse, SessionLimits
from rollgym.resources.sessions import Session


@dataclass
class CallerRecord:
    """What became of an id that a caller assigned: its episode, what was to be played, and its session if any."""

    episode: bytes
    payload: bytes
    session: Session | None
    closed: bool = False


class SessionBook:
    """Owns every session. Ended ones are remembered, the oldest forgotten first, so that late calls are told."""

    def __init__(
        self,
        closers: Closers,
        metrics: ResourcesMetrics,
        limits: SessionLimits,
        *,
        max_sessions: int,
        remembered: int,
    ) -> None:
        self._house = SessionHouse(closers, metrics, limits, ended=self._session_ended)
        self._max_sessions, self._remembered = max_sessions, remembered
        self._live: dict[str, Session] = {}
        self._ended: OrderedDict[str, Session] = OrderedDict()
        self._callers: OrderedDict[str, CallerRecord] = OrderedDict()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._live.values()))

    def sockets(self) -> Iterator[EpisodeSocket]:
        """The sockets of the sessions that are open."""
        return (session.socket for session in self if session.socket is not None)

    def begin(self, opener: Opener, reset: bytes, owner: str | None = None) -> Session:
        """A new session that starts to open; it ends with its `owner`."""
        session = Session(opener, self._house, reset, owner)
        self._live[session.id] = session
        session.begin()
        return session

    def refused(self, opener: Opener, error: RollgymError) -> Session:
        """A session that will never open, so that what follows its seed can be told why."""
        session = Session(opener, self._house, b"{}")
        session.refuse(error)
        return session

    def require_room(self) -> None:
        """Raises ServerFull at our own limit, and while this process stops."""
        if self._stopping:
            raise EnvBusy("this server is stopping", retry_after_s=5)
        if len(self._live) >= self._max_sessions:
            raise ServerFull(
                f"this server holds {len(self._live)} sessions, its limit",
                max_sessions=self._max_sessions,
                sessions=len(self._live),
                retry_after_s=1,
            )

    def found(self, session_id: str) -> Session:
        """The session with this id, live or over. Raises SessionUnknown."""
        session = self._live.get(session_id) or self._ended.get(session_id)
        if session is None:
            raise SessionUnknown("unknown session here")
        return session

    def _session_ended(self, session: Session) -> None:
        self._live.pop(session.id, None)
        self._ended[session.id] = session
        while len(self._ended) > self._remembered:
            self._ended.popitem(last=False)

    # Ids that callers assign

    def seeded_by_caller(self, caller_id: str, episode: bytes, payload: bytes) -> Session | None:
        """The session that this very seed got before; None where it may get one now. Raises SessionConflict."""
        record = self._callers.get(caller_id)
        if record is None:
            return None
        if record.closed or (record.session is not None and not record.session.is_live and record.session.was_open):
            raise SessionConflict("this id's session is over: it takes no new seed", resources_session_id=caller_id)
        if record.episode != episode:
            raise SessionConflict("this id belongs to another episode", resources_session_id=caller_id)
        if record.payload != payload:
            raise SessionConflict("this id was seeded with another task", resources_session_id=caller_id)
        return record.session if record.session is not None and record.session.is_live else None

    def assign(self, caller_id: str, episode: bytes, payload: bytes, session: Session) -> None:
        self._remember(caller_id, CallerRecord(episode, payload, session))

    async def close_by_caller(self, caller_id: str, episode: bytes) -> bool:
        """Close an id's session, or keep a late seed for it out; True where a session ended. Raises SessionConflict."""
        record = self._callers.get(caller_id)
        if record is None:
            self._remember(caller_id, CallerRecord(episode, b"", None, closed=True))
            return False
        if record.episode != episode:
            raise SessionConflict("this id belongs to another episode", resources_session_id=caller_id)
        record.closed = True
        return await record.session.close() if record.session is not None else False

    def _remember(self, caller_id: str, record: CallerRecord) -> None:
        """Keep a record, and forget the oldest; those of live sessions, which are needed yet, become young by it."""
        self._callers[caller_id] = record
        while len(self._callers) > self._remembered + len(self._live):
            oldest, known = next(iter(self._callers.items()))
            if known.session is not None and known.session.is_live:
                self._callers.move_to_end(oldest)
            else:
                del self._callers[oldest]

    # Reclaiming and the end

    async def reclaim_idle(self, idle_timeout_s: float) -> None:
        """Reclaim sessions that nobody used for so long, until cancelled."""
        while True:
            due_s = min((idle_timeout_s - session.idle_s() for session in self), default=idle_timeout_s)
            await asyncio.sleep(min(1.0, max(0.02, due_s)))
            for session in self:
                idle_s = session.idle_s()
                if idle_s > idle_timeout_s:
                    session.reclaim(idle_s)

    def abandon(self, owner: str) -> None:
        """End every session that this owner seeded."""
        for session in self:
            if session.owner == owner:
                session.abandon()

    def unused_s(self, owner: str) -> float:
        """Seconds since the last call on this owner's sessions ended; 0 while one is in flight, or a session opens."""
        return min((session.idle_s() for session in self if session.owner == owner), default=math.inf)

    def stop_intake(self) -> None:
        """From here on no session is opened."""
        self._stopping = True

    async def shut_down(self) -> None:
        """End every session; what they closed is awaited by `Closers.finished`."""
        self.stop_intake()
        sessions = list(self)
        openings = {session.opening for session in sessions if session.opening is not None}
        for session in sessions:
            session.shut_down()
        if openings:
            await asyncio.wait(openings)
