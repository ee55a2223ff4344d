"""A pipe that is full and that nobody reads, as of a log driver that cannot keep up."""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def full_pipe() -> Iterator[int]:
    """The writing end's descriptor: whoever writes to it blocks."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        yield writing
    finally:
        os.close(writing)
        os.close(reading)
