"""Sockets and file descriptors of a process: the listening socket, and how many files may be open."""

import contextlib
import errno
import resource
import socket
from typing import Any

from rollgym.common.errors import ConfigurationError

BACKLOG = 4096
SPARE_FILES = 64
"""Open files that a process needs for itself, whatever it serves."""
BURSTS = 3
"""So many times what waits to be accepted may be there before the first of it is answered and, if need be, refused."""

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


def keep_alive(connection: Any, unacknowledged_s: float | None = None) -> None:
    """Let the kernels notice a machine that went away without a word, while its process may take as long as it likes.

    A quiet connection ends 50 s after the other machine has gone. One with something sent that it has not taken ends
    after `unacknowledged_s`, else after some 15 minutes; a process that reads nothing for so long counts as gone too.
    What is set on a listening socket, its connections have. `connection`: a socket, or what asyncio gives for one.
    """
    options = list(_KEEPALIVE)
    if unacknowledged_s is not None:
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(unacknowledged_s * 1000)))
    for level, option, value in options:
        with contextlib.suppress(OSError):
            connection.setsockopt(level, option, value)


def bind(host: str, port: int) -> socket.socket:
    """A listening-ready TCP socket; port 0 picks a free one.

    Raises ConfigurationError with host and port where the address is taken, not ours, or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(listener)
        listener.bind((host, port))
        listener.listen(backlog())
        listener.setblocking(False)
    except (OSError, UnicodeError) as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on {host}:{port}: {_reason(error)}", host=host, port=port) from error
    return listener


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "the port is taken by another process; choose another, or 0 for any free one"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return "the address is not one of this machine's"
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return "not allowed (ports under 1024 need privileges)"
    return str(error)


def address(listener: socket.socket) -> tuple[str, int]:
    """Host and port that a socket is bound to."""
    host, port = listener.getsockname()[:2]
    return str(host), int(port)


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def backlog() -> int:
    """Connections that may wait to be accepted: they are accepted all at once, so few open files mean few."""
    return min(BACKLOG, _burst(open_files_possible()))


def open_files_possible() -> int:
    """How many files this process may have open, once `raise_open_file_limit` has been called."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def served_at_once(open_files: int, files_each: int) -> int:
    """How many clients can be served at a time with so many open files, each of them taking `files_each`."""
    return max(1, (open_files - SPARE_FILES - BURSTS * _burst(open_files)) // files_each)


def _burst(open_files: int) -> int:
    return max(16, (open_files - SPARE_FILES) // 8)


def raise_open_file_limit() -> tuple[int, int]:
    """Raise this process's soft limit of open files to its hard one; returns (soft, hard) as they then are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = 1 << 20
    if soft == resource.RLIM_INFINITY or soft >= hard:
        return soft, hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft, hard
    return hard, hard
