"""One driver per output: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rollgym.common.errors import ConfigurationError


@contextlib.contextmanager
def output_lock(path: Path) -> Iterator[None]:
    """Hold the lock file of an output. Raises ConfigurationError where another driver holds it.

    The file goes away at the end; what a killed driver left is only a name, never a lock.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 100).decode(errors="replace").strip()
            os.close(descriptor)
            raise ConfigurationError(
                f"another driver writes this output (process {holder or 'unknown'}; lock {path}): "
                "wait for it or choose another output_jsonl_fpath",
                lock=str(path),
            ) from error
        if _still_named(descriptor, path):
            break
        os.close(descriptor)  # the holder before us removed it in the same instant
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
