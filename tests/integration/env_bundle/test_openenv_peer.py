"""The published `openenv` package beside us: its client plays every environment, its validator passes every one.

Importing that package takes seconds, so one process does it all and reports.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integration.env_bundle.client import Admin
from needs import peer_python
from processes import RunningCommand

PROGRAM = Path(__file__).with_name("openenv_peer_program.py")

pytestmark = pytest.mark.peer("openenv")


@pytest.fixture(scope="module")
def report(shared_bundle: RunningCommand) -> Any:
    """What each check of the peer's program came to: "ok", or what went wrong."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [str(peer_python("openenv")), str(PROGRAM), shared_bundle.url]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=110, check=False, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("target", ["root", "gridsim", "wordle", "echo"])
def test_openenv_validate_passes(report: Any, admin: Admin, target: str) -> None:
    assert report[f"validate {target}"] == "ok"


@pytest.mark.parametrize("name", ["gridsim", "wordle", "echo"])
def test_openenvs_generic_client_plays(report: Any, admin: Admin, name: str) -> None:
    assert report[f"play {name}"] == "ok"
