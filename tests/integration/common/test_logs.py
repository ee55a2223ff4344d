"""The log of a process: no secret in it, and never the reason that the process stands still."""

import subprocess
import sys

import pytest

from integration.common.pipes import full_pipe

SENTINEL = "S3NT1NEL"

LEAKING = f"""
import logging, sys
from rollgym.common.logs import configure_logging, get_logger
configure_logging("test", "debug", plain=sys.argv[1] == "plain")
log = get_logger("test")
held = "{SENTINEL}"
headers = {{"Authorization": "Bearer " + held}}
log.info("event", headers=headers, url="http://u:" + held + "@h", nested=[{{"password": held}}])
try:
    raise ValueError("http://u:" + held + "@h does not answer")
except ValueError:
    log.exception("it broke")
    logging.getLogger("library").exception("http://u:%s@h", held)
logging.getLogger("library").warning("api_key=%s", held)
log.info("the last line")
"""

TALKING = """
from rollgym.common.logs import configure_logging, get_logger
configure_logging("test", "debug")
log = get_logger("test")
for number in range(11_000):
    log.info("something", number=number)
print("done", flush=True)
"""


@pytest.mark.parametrize("form", ["json", "plain"])
def test_no_line_holds_a_secret_not_even_with_a_traceback(form: str) -> None:
    words = [sys.executable, "-c", LEAKING, form]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert "it broke" in ended.stderr
    assert "ValueError" in ended.stderr
    assert "the last line" in ended.stderr
    assert SENTINEL not in ended.stderr


def test_a_reader_that_never_reads_stops_nothing_and_no_end() -> None:
    with full_pipe() as stuck:
        words = [sys.executable, "-c", TALKING]
        ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=stuck, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.returncode) == ("done\n", 0)
