"""Which servers there are, told by their heartbeats. Owns the rules of up, not responding and gone; does no I/O.

A server that is merely busy misses heartbeats: it is "not_responding" and kept. It is "gone" only when it said
goodbye, when its port refuses connections, or after a long silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rollgym.common.errors import BadRequest
from rollgym.common.redaction import redact, redact_text
from rollgym.common.registration import ServerRegistration
from rollgym.head.errors import HeadFull, ServerUnknown

MAX_SERVERS = 2000
RESERVED_NAMES = frozenset({"head_server"})

_REFUSED = "connection refused"


class ServerStatus(StrEnum):
    UP = "up"
    NOT_RESPONDING = "not_responding"
    GONE = "gone"


_ORDER = {ServerStatus.UP: 0, ServerStatus.NOT_RESPONDING: 1, ServerStatus.GONE: 2}


@dataclass(frozen=True)
class _Entry:
    """What is remembered of one process. Times named `_at` are epoch seconds, `_clock` are of the monotonic clock."""

    instance_id: str
    registration: ServerRegistration
    last_heartbeat_at: float
    heartbeat_clock: float
    gone_clock: float | None = None
    gone_reason: str | None = None
    refused_wrongly: bool = False


@dataclass(frozen=True)
class Server:
    """One registered process as it looks now."""

    instance_id: str
    registration: ServerRegistration
    status: ServerStatus
    reason: str | None
    last_heartbeat_at: float
    age_s: float

    @property
    def live(self) -> bool:
        return self.status is not ServerStatus.GONE

    def to_wire(self) -> dict[str, Any]:
        """The registration with `instance_id`, `status`, `reason`, `last_heartbeat_at` and the heartbeat's `age_s`."""
        return {
            **self.registration.model_dump(),
            "instance_id": self.instance_id,
            "status": self.status.value,
            "reason": self.reason,
            "last_heartbeat_at": round(self.last_heartbeat_at, 3),
            "age_s": round(self.age_s, 3),
        }


class Registry:
    """The servers by instance id. `clock` is monotonic, `wall` gives epoch seconds; tests inject both."""

    def __init__(
        self,
        *,
        silence_limit_s: float = 600.0,
        gone_kept_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._silence_limit_s, self._gone_kept_s = silence_limit_s, gone_kept_s
        self._clock, self._wall = clock, wall
        self._entries: dict[str, _Entry] = {}

    def heartbeat(self, instance_id: str, registration: ServerRegistration) -> Server:
        """Register, or say again that it is there: one message for both, so that a new head learns it too."""
        if registration.name in RESERVED_NAMES:
            raise BadRequest(f"the name {registration.name!r} is the head's own", name=registration.name)
        known = self._entries.get(instance_id)
        if known is None:
            self._make_room()
        was_refused = known is not None and known.gone_reason == _REFUSED
        self._entries[instance_id] = entry = _Entry(
            instance_id=instance_id,
            registration=_without_secrets(registration),
            last_heartbeat_at=self._wall(),
            heartbeat_clock=self._clock(),
            # It lives, though its port refused us: that address is not for us to judge it by.
            refused_wrongly=was_refused or (known is not None and known.refused_wrongly),
        )
        return self._seen(entry)

    def known(self, instance_id: str) -> bool:
        """Whether this process has been heard of, gone or not."""
        return instance_id in self._entries

    def deregister(self, instance_id: str) -> Server:
        """The server says goodbye; it stays listed as gone for a while. Raises ServerUnknown."""
        if instance_id not in self._entries:
            raise ServerUnknown(f"no server {instance_id!r} is registered", instance_id=instance_id)
        return self._seen(self._mark_gone(self._entries[instance_id], "deregistered"))

    def connection_refused(self, probed: Server) -> None:
        """Nothing listens at the server's address any more. A heartbeat that came meanwhile wins over the probe."""
        entry = self._entries.get(probed.instance_id)
        if entry is not None and entry.last_heartbeat_at == probed.last_heartbeat_at and not entry.refused_wrongly:
            self._mark_gone(entry, _REFUSED)

    def servers(self) -> list[Server]:
        """All known servers: by name, the live ones of a name first, the longest running of those first."""
        self._forget_old()
        return sorted(map(self._seen, self._entries.values()), key=_by_name)

    def live(self) -> list[Server]:
        """The servers that are not gone, in the order of `servers`."""
        return [server for server in self.servers() if server.live]

    def probeable(self) -> list[Server]:
        """The live servers whose port says something about them."""
        return [server for server in self.live() if not self._entries[server.instance_id].refused_wrongly]

    def count_by_status(self) -> dict[str, int]:
        """How many servers have each status; safe to call from another thread."""
        counts = {status.value: 0 for status in ServerStatus}
        for entry in list(self._entries.values()):
            counts[self._seen(entry).status.value] += 1
        return counts

    def _seen(self, entry: _Entry) -> Server:
        age_s = max(0.0, self._clock() - entry.heartbeat_clock)
        status, reason = ServerStatus.UP, None
        if entry.gone_clock is not None:
            status, reason = ServerStatus.GONE, entry.gone_reason
        elif age_s > max(self._silence_limit_s, entry.registration.ttl_s):
            status, reason = ServerStatus.GONE, "silent for too long"
        elif age_s > entry.registration.ttl_s:
            status, reason = ServerStatus.NOT_RESPONDING, "heartbeats are overdue"
        return Server(entry.instance_id, entry.registration, status, reason, entry.last_heartbeat_at, age_s)

    def _mark_gone(self, entry: _Entry, reason: str) -> _Entry:
        if entry.gone_clock is None:
            entry = replace(entry, gone_clock=self._clock(), gone_reason=reason)
            self._entries[entry.instance_id] = entry
        return entry

    def _forget_old(self) -> None:
        for entry in list(self._entries.values()):
            if self._seen(entry).status is ServerStatus.GONE:
                since = entry.gone_clock
                if since is None:
                    since = entry.heartbeat_clock + max(self._silence_limit_s, entry.registration.ttl_s)
                if self._clock() - since > self._gone_kept_s:
                    del self._entries[entry.instance_id]

    def _make_room(self) -> None:
        if len(self._entries) < MAX_SERVERS:
            return
        gone = [entry for entry in self._entries.values() if not self._seen(entry).live]
        if not gone:
            raise HeadFull(f"{MAX_SERVERS:,} servers are registered already", max_servers=MAX_SERVERS, retry_after_s=30)
        del self._entries[min(gone, key=lambda entry: entry.heartbeat_clock).instance_id]


def _without_secrets(registration: ServerRegistration) -> ServerRegistration:
    return registration.model_copy(
        update={"url": redact_text(registration.url), "metadata": redact(registration.metadata)}
    )


def _by_name(server: Server) -> tuple[str, int, float, str]:
    return server.registration.name, _ORDER[server.status], server.registration.started_at, server.instance_id
