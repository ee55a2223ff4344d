"""Sockets and file descriptors of a process: the listening socket, and how many files may be open."""

import errno
import resource
import socket

from rollgym.common.errors import ConfigurationError

BACKLOG = 4096


def bind(host: str, port: int) -> socket.socket:
    """A listening-ready TCP socket; port 0 picks a free one.

    Raises ConfigurationError with host and port where the address is taken, not ours, or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
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
