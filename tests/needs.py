"""What some tests need from the machine, and what happens where it is missing.

A test says so with a marker: `@pytest.mark.docker`, `@pytest.mark.browser`, `@pytest.mark.peer("openenv")`. Without the
thing it is skipped with a reason, or fails when `ROLLGYM_REQUIRE_DOCKER`, `_BROWSER` or `_PEERS` is set.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def peer_python(name: str) -> Path:
    """The interpreter of a peer's own virtual environment (`make peers`; `ROLLGYM_PEER_<NAME>` names another)."""
    return Path(
        os.environ.get(f"ROLLGYM_PEER_{name.upper().replace('-', '_')}") or ROOT / ".venvs" / name / "bin" / "python"
    )


@cache
def browser_path() -> str | None:
    """The Chromium of this machine, for playwright's `executable_path`; `ROLLGYM_CHROMIUM` names another."""
    if named := os.environ.get("ROLLGYM_CHROMIUM"):
        return named if os.access(named, os.X_OK) else None
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@cache
def _without_docker() -> str | None:
    if shutil.which("docker") is None:
        return "no docker command"
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "the Docker engine did not answer within 20 s"
    return f"no Docker engine answers: {answer.stderr.strip()}" if answer.returncode else None


def _without_peer(name: str) -> str | None:
    python = peer_python(name)
    return None if python.exists() else f"peer {name}: no {python} (make peers)"


def _without_browser() -> str | None:
    return None if browser_path() else "no Chromium on this machine"


NEEDS: dict[str, tuple[Callable[..., str | None], str]] = {
    "docker": (_without_docker, "ROLLGYM_REQUIRE_DOCKER"),
    "peer": (_without_peer, "ROLLGYM_REQUIRE_PEERS"),
    "browser": (_without_browser, "ROLLGYM_REQUIRE_BROWSER"),
}


def enforce(item: pytest.Item) -> None:
    """Skip or fail `item` when one of its markers names something that this machine lacks."""
    for marker in item.iter_markers():
        if marker.name not in NEEDS:
            continue
        lacks, required_by = NEEDS[marker.name]
        if (reason := lacks(*marker.args)) is None:
            continue
        if os.environ.get(required_by):
            pytest.fail(f"{reason} ({required_by} is set)", pytrace=False)
        pytest.skip(reason)
