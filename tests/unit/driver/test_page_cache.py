import os
from pathlib import Path

import pytest

from rollgym.driver.artifacts.in_memory import in_memory_remark
from rollgym.driver.artifacts.lines import LineAppender
from rollgym.driver.artifacts.page_cache import STEP_BYTES, GrowingFile, growing_file


class Kernel:
    """Notes each piece of advice, which takes `takes_s`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.takes_s = 0.0
        self.advised: list[tuple[int, int]] = []

    def clock(self) -> float:
        return self.now

    def advise(self, offset: int, length: int) -> None:
        self.advised.append((offset, length))
        self.now += self.takes_s


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


class File:
    """Lets go whenever it grew."""

    def __init__(self, kernel: Kernel, size: int = 0) -> None:
        self._file = GrowingFile(size, kernel.advise, step_bytes=10, clock=kernel.clock)

    def grew(self, count: int) -> None:
        self._file.grew(count)
        self._file.let_go()


def test_advice_is_given_of_whole_steps_and_again_of_those_before(kernel: Kernel) -> None:
    file = File(kernel)
    file.grew(9)
    assert kernel.advised == []
    file.grew(1)
    assert kernel.advised == [(0, 10)]
    file.grew(25)
    assert kernel.advised[1:] == [(0, 30)]
    file.grew(4)
    assert len(kernel.advised) == 2, "no step was completed"


def test_what_was_in_the_file_before_stays_in_the_cache(kernel: Kernel) -> None:
    file = File(kernel, size=25)
    file.grew(9)
    assert kernel.advised == []
    file.grew(10)
    assert kernel.advised == [(30, 10)]


def test_slow_advice_gets_a_quarter_of_the_time_and_two_steps_more_at_once(kernel: Kernel) -> None:
    file = File(kernel)
    kernel.takes_s = 2.0
    file.grew(10)
    for _ in range(5):
        kernel.now += 1.0
        file.grew(10)
    assert kernel.advised == [(0, 10)]
    kernel.now += 1.0
    file.grew(10)
    assert kernel.advised == [(0, 10), (0, 30)], "of 70 bytes"
    kernel.takes_s = 0.0
    kernel.now += 6.0
    file.grew(1)
    file.grew(1)
    assert kernel.advised[2:] == [(0, 50), (0, 70)], "what was left is caught up with"


def test_a_file_that_takes_no_advice_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    fadvise = os.posix_fadvise

    def noted(descriptor: int, offset: int, length: int, advice: int) -> None:
        asked.append(offset)
        fadvise(descriptor, offset, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    reading, writing = os.pipe()
    try:
        file = growing_file(writing)
        for _ in range(3):
            file.grew(STEP_BYTES)
            file.let_go()
    finally:
        os.close(reading)
        os.close(writing)
    assert len(asked) == 1


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="needs Linux, to ask what is in the page cache")
def test_rows_that_were_written_leave_the_page_cache_and_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    if in_memory_remark(path) is not None:
        pytest.skip("a file system in memory lets go of nothing")
    appender = LineAppender(path)
    lines = [b"x" * (STEP_BYTES // 4 - 1)] * 4
    steps = 0
    with path.open("rb") as file:
        while not steps or (steps < 10 and cached(file.fileno())):
            for line in lines:
                appender.append(line)
            appender.sync()  # what is on disk goes with the next piece of advice, or one soon after
            assert steps or cached(file.fileno())
            appender.let_go()
            steps += 1
        assert not cached(file.fileno())
    appender.close()
    assert path.read_bytes() == b"\n".join([*lines * steps, b""])


def cached(descriptor: int) -> bool:
    """Whether the file's first page can be read without its disk."""
    try:
        return os.preadv(descriptor, [bytearray(16)], 0, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
