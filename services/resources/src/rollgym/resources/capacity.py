"""How many sessions this process can hold: each takes a socket to its environment and one of its client."""

from __future__ import annotations

from rollgym.common.binding import open_files_possible, served_at_once
from rollgym.common.errors import ConfigurationError

FILES_PER_SESSION = 2


def session_limit(configured: int | None) -> int:
    """The sessions to hold at most: as many as configured, else as the limit of open files allows.

    Raises ConfigurationError where more are configured than that.
    """
    open_files = open_files_possible()
    possible = served_at_once(open_files, FILES_PER_SESSION)
    if configured is not None and configured > possible:
        raise ConfigurationError(
            f"max_sessions {configured} is more than the {possible} sessions that {open_files} open files allow: raise"
            f" the limit (ulimit -n) or set it to {possible} or less"
        )
    return possible if configured is None else configured
