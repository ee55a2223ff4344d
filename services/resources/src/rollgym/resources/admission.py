"""Who may try to open a session on an environment server, and when: first come, first served, and no hammering.

A gate learns from the server's answers. After a refusal, our sessions at that moment are its ceiling: below it, a freed
slot admits the next waiter at once; at it, one waiter probes, after a back-off that grows while probes are refused, and
each success lets one more probe at a time, so that probing doubles with each round. A failure that says nothing about
capacity (a timeout, a reset) delays that one waiter; of a probe, or several in a row without a success, it counts as a
refusal.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rollgym.resources.verdicts import Verdict

FAILURES_THAT_REFUSE = 8
FIRST_HANDSHAKES = 8


@dataclass(frozen=True)
class Backoff:
    """Delays in seconds: doubling from `base_s` to `cap_s`, then jittered, so that the cap does not re-align waiters.

    `full_s` is the delay between probes while we hold all the sessions that the server says it has.
    """

    base_s: float = 0.1
    cap_s: float = 2.0
    full_s: float = 30.0
    jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.5)

    def delay_s(self, failures: int, least_s: float = 0.0) -> float:
        """The delay after `failures` (1 or more); never below `least_s`, what the server asked for."""
        capped = min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, 30))
        delay = capped * self.jitter()
        return delay if delay >= least_s else least_s + capped * abs(self.jitter() - 0.5)


class Slot:
    """Leave to hold one session: from the attempt's start until the session has been torn down. Released once."""

    __slots__ = ("_confirmed", "_gate", "_handshaking", "_held", "probe", "started_at")

    def __init__(self, gate: Gate, *, probe: bool, started_at: float) -> None:
        self._gate, self.probe, self.started_at = gate, probe, started_at
        self._held, self._handshaking, self._confirmed = True, True, False

    def shook_hands(self) -> None:
        """The handshake is done: another may begin."""
        if self._handshaking:
            self._handshaking = False
            self._gate._handshake_ended()

    def confirm(self) -> None:
        """The session is open."""
        self.shook_hands()
        self._confirmed = True
        self._gate._opened(self)

    def release(self, verdict: Verdict | None = None) -> None:
        """The attempt or its session is over; `verdict` says why an attempt failed, where that tells something."""
        if not self._held:
            return
        self._held = False
        if self._handshaking:
            self._handshaking = False
            self._gate._handshake_ended(pump=False)
        self._gate._released(self, confirmed=self._confirmed, verdict=verdict)


@dataclass(eq=False)
class _Waiter:
    ticket: int
    admitted: asyncio.Future[Slot]

    def __lt__(self, other: _Waiter) -> bool:
        return self.ticket < other.ticket


class Place:
    """One client's place in the queue, kept over its attempts; a context manager that leaves the queue at its end."""

    def __init__(self, gate: Gate, ticket: int) -> None:
        self._gate, self._ticket = gate, ticket
        self._waiter: _Waiter | None = None
        self._failures = 0
        self._not_before = 0.0

    def __enter__(self) -> Place:
        self._gate._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate._leave()

    def failed(self, verdict: Verdict) -> None:
        """Back off before this client's next attempt, where the failure was its own and not the server's refusal."""
        if verdict.refusal:
            self._failures = 0
            return
        self._failures += 1
        self._not_before = self._gate.now() + self._gate.backoff.delay_s(self._failures)

    async def admitted(self) -> Slot:
        """Wait for leave to try. When cancelled, the place in the queue is given up and no slot is taken."""
        waiter = _Waiter(self._ticket, asyncio.get_running_loop().create_future())
        self._gate._queue(waiter, self._not_before)
        try:
            return await waiter.admitted
        except BaseException:
            if waiter.admitted.done() and not waiter.admitted.cancelled() and waiter.admitted.exception() is None:
                waiter.admitted.result().release()
            else:
                waiter.admitted.cancel()
                self._gate._pump()
            raise

    def try_now(self) -> Slot:
        """A slot without waiting, whatever the gate knows: for a client that has no patience at all."""
        return self._gate._take(probe=False)


class Gate:
    """The queue for one environment server, and what its answers taught."""

    def __init__(self, *, max_handshakes: int, backoff: Backoff | None = None) -> None:
        self.backoff = backoff or Backoff()
        self.max_handshakes = max_handshakes
        self.max_sessions: int | None = None
        self.ceiling: int | None = None
        self.held = self.confirmed = self.handshakes = self.waiting = 0
        self._ready: list[_Waiter] = []
        self._delayed: list[tuple[float, _Waiter]] = []
        self._tickets = itertools.count()
        self._closed: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._shut_until = 0.0
        self._probe_at = 0.0
        self._probes, self._probe_window = 0, 1
        self._refusals = self._failures = 0
        self._last_success = 0.0
        self._successes = 0

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def place(self) -> Place:
        """A new place at the queue's end."""
        return Place(self, next(self._tickets))

    def close(self, error: BaseException) -> None:
        """Admit nobody any more: all who wait, and all who come, get `error`."""
        self._closed = error
        if self._timer is not None:
            self._timer.cancel()
        for waiter in (*self._ready, *(waiter for _, waiter in self._delayed)):
            if not waiter.admitted.done():
                waiter.admitted.set_exception(error)
        self._ready.clear()
        self._delayed.clear()

    def retry_after_s(self) -> float:
        """When a client that gave up may sensibly come again."""
        return max(1.0, self._probe_at - self.now(), self._shut_until - self.now())

    # What places and slots report

    def _enter(self) -> None:
        self.waiting += 1

    def _leave(self) -> None:
        self.waiting -= 1

    def _queue(self, waiter: _Waiter, not_before: float) -> None:
        if self._closed is not None:
            raise self._closed
        if not_before > self.now():
            heapq.heappush(self._delayed, (not_before, waiter))
        else:
            heapq.heappush(self._ready, waiter)
        self._pump()

    def _handshake_ended(self, *, pump: bool = True) -> None:
        self.handshakes -= 1
        if pump:
            self._pump()

    def _opened(self, slot: Slot) -> None:
        self.confirmed += 1
        self._failures = self._refusals = 0
        self._last_success = self.now()
        self._successes += 1
        if slot.probe:
            self._probes -= 1
            self._probe_window = min(self._probe_window + 1, self.max_handshakes)
            self._probe_at = self.now()
        if self.ceiling is not None:
            self.ceiling = max(self.ceiling, self.confirmed)
        if self.max_sessions is not None:
            self.max_sessions = max(self.max_sessions, self.confirmed)
        self._pump()

    def _released(self, slot: Slot, *, confirmed: bool, verdict: Verdict | None) -> None:
        self.held -= 1
        if confirmed:
            self.confirmed -= 1
        elif slot.probe:
            self._probes -= 1
        if verdict is not None and verdict.busy:
            self._learn(slot, verdict)
        self._pump()

    def _learn(self, slot: Slot, verdict: Verdict) -> None:
        if not verdict.refusal and slot.started_at >= self._last_success:
            self._failures += 1
        if not verdict.refusal and not slot.probe and self._failures < FAILURES_THAT_REFUSE:
            return
        self._failures = 0
        self.ceiling = self.confirmed
        if verdict.max_sessions is not None:
            self.max_sessions = verdict.max_sessions
        # Attempts that were under way together are refused together: that is one refusal, not many.
        if slot.probe or self._refusals == 0:
            self._refusals += 1
        self._probe_window = 1
        self._probe_at = self.now() + self.backoff.delay_s(self._refusals, verdict.retry_after_s or 0.0)
        if verdict.retry_after_s is not None:
            self._shut_until = max(self._shut_until, self._probe_at)

    # Admission

    def _take(self, *, probe: bool) -> Slot:
        self.held += 1
        self.handshakes += 1
        self._probes += probe
        return Slot(self, probe=probe, started_at=self.now())

    def _pump(self) -> None:
        """Admit whoever may go now, in order of arrival; wake again when the next one may."""
        if self._closed is not None:
            return
        now = self.now()
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._delayed)[1])
        while waiter := self._first():
            probe = self._probe_needed()
            if not self._may_go(now, probe=probe):
                break
            heapq.heappop(self._ready)
            waiter.admitted.set_result(self._take(probe=probe))
        self._wake_later(now)

    def _first(self) -> _Waiter | None:
        while self._ready and self._ready[0].admitted.done():
            heapq.heappop(self._ready)
        return self._ready[0] if self._ready else None

    def _probe_needed(self) -> bool:
        return self.ceiling is not None and self.held >= self.ceiling

    def _full(self) -> bool:
        return self.max_sessions is not None and self.held >= self.max_sessions

    def _may_go(self, now: float, *, probe: bool) -> bool:
        if self.handshakes >= self._handshake_limit() or now < self._shut_until:
            return False
        return not probe or (self._probes < self._probe_window and now >= self._next_probe_at())

    def _handshake_limit(self) -> int:
        """A server that never said what it takes gets few at first, and one more with each success."""
        limit = self.max_handshakes
        return limit if self.ceiling is not None else min(limit, FIRST_HANDSHAKES + self._successes)

    def _next_probe_at(self) -> float:
        """A server that is full of our own sessions is asked rarely: the next slot to free is one of ours."""
        return self._probe_at + self.backoff.full_s if self._full() else self._probe_at

    def _wake_later(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [self._delayed[0][0]] if self._delayed else []
        if self._ready:
            probing = self._probe_needed() and self._probes < self._probe_window
            times += [self._shut_until, *([self._next_probe_at()] if probing else [])]
        if upcoming := [at for at in times if at > now]:
            self._timer = asyncio.get_running_loop().call_at(min(upcoming) + 0.001, self._pump)
