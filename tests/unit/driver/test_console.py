"""What a person is shown: in order, live only on a terminal that takes it, and never what a run waits for."""

import io
import os
import threading
import time

import pytest

from rollgym.driver.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_in_order_on_their_streams() -> None:
    out, err = io.StringIO(), io.StringIO()
    console = Console(out, err)
    for number in range(50):
        console.say(f"said {number}")
    console.result("result")
    console.close()
    assert err.getvalue().splitlines() == [f"said {number}" for number in range(50)]
    assert out.getvalue() == "result\n"


@pytest.mark.parametrize(
    ("stream", "environment", "live"),
    [
        (Terminal, {"TERM": "xterm"}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (Terminal, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (io.StringIO, {"TERM": "xterm"}, False),
    ],
    ids=["terminal", "dumb", "no-color", "file"],
)
def test_a_line_is_redrawn_only_where_that_is_wanted(
    stream: type[io.StringIO], environment: dict[str, str], live: bool
) -> None:
    os.environ.pop("NO_COLOR", None)
    os.environ.update(environment)
    console = Console(io.StringIO(), stream())
    assert console.is_live is live
    console.close()


class Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_left_is_no_error() -> None:
    out = io.StringIO()
    console = Console(out, Broken())
    console.say("to nobody")
    console.result("still here")
    console.close()
    assert out.getvalue() == "still here\n"


class Stuck(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def write(self, _: str) -> int:
        self.free.wait(30)
        return 0


def test_a_reader_that_never_reads_holds_up_nothing_for_long() -> None:
    stuck = Stuck()
    console = Console(io.StringIO(), stuck)
    began = time.monotonic()
    for number in range(10_000):
        console.say(str(number))
    console.close()
    assert time.monotonic() - began < 10
    stuck.free.set()


def test_a_stream_that_was_closed_before_the_start_is_no_error() -> None:
    console = Console(None, None)
    console.say("nobody")
    console.result("hears")
    assert not console.is_live
    console.close()
