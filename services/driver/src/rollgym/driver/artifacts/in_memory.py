"""Whether a run's files would be on a file system in memory, which ends with its machine or container."""

from __future__ import annotations

from pathlib import Path

_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_MOUNTS = Path("/proc/self/mountinfo")


def in_memory_remark(results: Path, mounts: Path = _MOUNTS) -> str | None:
    """A sentence for the person who asked for results there; None where they are on a disk, or nobody can tell."""
    folder = results.parent.resolve()
    try:
        kind = _file_system(folder, mounts.read_text())
    except OSError:
        return None
    if kind not in _IN_MEMORY:
        return None
    return f"{folder} is in memory ({kind}): what is written there is gone when this machine or container ends"


def _file_system(folder: Path, mounts: str) -> str | None:
    """The type of the mount that `folder` is on: the deepest one above it, and of two at one place the later."""
    deepest, found = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        at = Path(before.split()[4].encode().decode("unicode_escape"))  # a space in it is \040
        if folder.is_relative_to(at) and len(at.parts) >= deepest:
            deepest, found = len(at.parts), after.split()[0]
    return found
