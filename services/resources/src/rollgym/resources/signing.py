"""Session credentials: ids of 128 random bits, and the signed token that a cookie carries.

A token reads `<instance>.<session id>.<signature>`. The instance names the process that owns the session, so that a
call that a proxy sent to the wrong replica is told so and is not taken for a forgery.
"""

from __future__ import annotations

import hmac
import secrets

from rollgym.common.errors import SessionError, SessionUnknown

COOKIE = "rollgym_session"
SESSION_HEADER = "x-session-id"


class SessionElsewhere(SessionError):
    """The token belongs to another process: another replica, or this one before it was restarted."""

    code = "session_elsewhere"
    status = 421


def new_session_id() -> str:
    """128 random bits, as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def handle(session_id: str) -> str:
    """The part of a session id that logs and listings show: enough to tell sessions apart, too little to use one."""
    return session_id[:8]


class Signer:
    """Signs and checks session tokens of one process."""

    def __init__(self, key: str | None = None, instance: str | None = None) -> None:
        self._key = key.encode() if key else secrets.token_bytes(32)
        self.instance = instance or secrets.token_hex(4)

    def token(self, session_id: str) -> str:
        return f"{self.instance}.{session_id}.{self._signature(session_id)}"

    def session_id(self, token: str) -> str:
        """The session id in a token of ours. Raises SessionElsewhere or SessionUnknown."""
        instance, _, rest = token.partition(".")
        session_id, _, signature = rest.partition(".")
        if not signature:
            raise SessionUnknown("this is no session of this server")
        if instance != self.instance:
            raise SessionElsewhere(
                "unknown session here: it belongs to another replica, or to this server before a restart"
            )
        if not hmac.compare_digest(signature.encode(), self._signature(session_id).encode()):
            raise SessionUnknown("the session's signature is wrong")
        return session_id

    def _signature(self, session_id: str) -> str:
        return hmac.digest(self._key, f"{self.instance}.{session_id}".encode(), "sha256").hex()[:32]


def cookie_header(token: str) -> str:
    """The `Set-Cookie` value of a session."""
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax"


def cookie_value(header: str) -> str | None:
    """Our cookie's value in a `Cookie` header; the last one where a client sends several."""
    found = None
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            found = value.strip('"')
    return found
