"""JSON Lines on disk: read line by line in bounded memory, appended whole, and a torn end repaired.

A line ends at ``\\n`` and nowhere else. A last line without one was torn by a kill or a full disk: its bytes move to
``<file>.torn``. A bad line that does end in a newline was not torn by us: it is refused, or set aside when asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollgym.common.errors import ArtifactError
from rollgym.driver.artifacts.page_cache import growing_file

BLOCK_BYTES = 1 << 20
_PIECES_AT_ONCE = 512
BOM = b"\xef\xbb\xbf"

Piece = bytes | bytearray | memoryview
Line = Sequence[Piece]
"""A line to be written, in the parts that it is made of, without its line end."""


@dataclass(frozen=True, slots=True)
class ReadLine:
    """One line of a file: its number from 1, where it begins, its bytes without the line end."""

    number: int
    offset: int
    content: bytes


def read_lines(path: Path) -> Iterator[ReadLine]:
    """Lines of a file, blank ones left out; a BOM and CRLF line ends are taken off. OSError as it comes.

    What is held is a block of the file and one line, that line once.
    """
    with path.open("rb", buffering=0) as file:
        for number, (offset, line) in enumerate(_split(file.fileno()), 1):
            start, content = offset, line.removesuffix(b"\r")
            if number == 1 and content.startswith(BOM):
                start, content = start + len(BOM), content[len(BOM) :]
            if content and not content.isspace():
                yield ReadLine(number, start, content)


def _split(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and its bytes up to the newline. One that leaves its block is read once more, whole."""
    start = begin = 0  # of the line, of the block
    while block := os.pread(descriptor, BLOCK_BYTES, begin):
        while (end := block.find(b"\n", max(0, start - begin))) >= 0:
            size = begin + end - start
            yield start, block[end - size : end] if size <= end else os.pread(descriptor, size, start)
            start += size + 1
        begin += len(block)
    if start < begin:
        yield start, os.pread(descriptor, begin - start, start)


def repair_torn_end(path: Path) -> int:
    """Move an unterminated last line to ``<file>.torn``; returns how many bytes that were, 0 where none was torn."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = _after_last_newline(file.fileno(), size)
        if start == size:
            return 0
        torn = os.pread(file.fileno(), size - start, start)
        with path.with_name(path.name + ".torn").open("ab") as kept:
            kept.write(torn + b"\n")
            kept.flush()
            os.fsync(kept.fileno())
        file.truncate(start)
        return size - start


def _after_last_newline(descriptor: int, size: int) -> int:
    end = size
    while end > 0:
        begin = max(0, end - BLOCK_BYTES)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def set_aside(path: Path, numbers: set[int]) -> None:
    """Move the lines with these numbers to ``<file>.bad``; the rest stays, in order; the file is replaced at once."""
    rest, bad = path.with_name(path.name + ".rewriting"), path.with_name(path.name + ".bad")
    with path.open("rb") as source, rest.open("wb") as kept, bad.open("ab") as away:
        for number, raw in enumerate(source, 1):
            (away if number in numbers else kept).write(raw)
        for file in (kept, away):
            file.flush()
            os.fsync(file.fileno())
    rest.replace(path)


class LineAppender:
    """Appends whole lines to one file. What was written in part is taken back: a line is there or it is not.

    Not for several threads at once. Raises ArtifactError where the file system refuses.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise ArtifactError(f"cannot open {path}: {error.strerror}", path=str(path)) from error
        self._file = growing_file(self._descriptor)

    def append(self, *parts: bytes) -> None:
        """Write one line made of `parts`, plus its newline."""
        self.append_block([*parts, b"\n"])

    def append_block(self, pieces: Sequence[Piece]) -> None:
        """Write pieces that end in a newline, all or none."""
        written = 0
        try:
            for start in range(0, len(pieces), _PIECES_AT_ONCE):
                part = pieces[start : start + _PIECES_AT_ONCE]
                done = os.writev(self._descriptor, part)
                written += done
                rest = b"".join(part)[done:] if done < sum(map(len, part)) else b""
                while rest:
                    done = os.write(self._descriptor, rest)
                    written += done
                    rest = rest[done:]
        except OSError as error:
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise ArtifactError(
                f"cannot write {self.path}: {error.strerror}; the run can go on with --resume once there is room",
                path=str(self.path),
            ) from error
        self._file.grew(written)

    def let_go(self) -> None:
        """Have the kernel keep no more of it in memory than it must, where much was written."""
        self._file.let_go()

    def sync(self) -> None:
        """Have the lines on the disk itself. Raises ArtifactError."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise ArtifactError(f"cannot write {self.path}: {error.strerror}", path=str(self.path)) from error

    def close(self) -> None:
        os.close(self._descriptor)
