"""Where some bytes are in an open file, for whoever reads them, or has the kernel send them."""

from __future__ import annotations

from typing import NamedTuple


class FileRange(NamedTuple):
    """`size` bytes from `offset` on; the descriptor is its owner's to close."""

    descriptor: int
    offset: int
    size: int
