"""scripts/compose.sh around a `docker` that does as it is told."""

import os
import subprocess
from pathlib import Path

import pytest

from needs import ROOT


def run(folder: Path, *words: str, code: int) -> subprocess.CompletedProcess[str]:
    """The script in an empty folder; each `docker compose` but `ps` ends with `code`."""
    docker = folder / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\n[ "$2" = ps ] && exit 0\necho "docker: $*" >&2\nexit {code}\n')
    docker.chmod(0o755)
    path = f"{docker.parent}{os.pathsep}{os.environ['PATH']}"
    script = ROOT / "scripts" / "compose.sh"
    return subprocess.run(
        [script, *words], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def test_an_up_that_fails_says_what_to_do_and_keeps_its_exit_code(tmp_path: Path) -> None:
    ended = run(tmp_path, "up", "--detach", code=17)
    assert ended.returncode == 17
    first, second = ended.stderr.splitlines()
    assert first == "docker: compose up --detach"
    assert "HEAD_PORT=" in second
    assert "make down" in second


@pytest.mark.parametrize(("words", "code"), [(("up",), 0), (("run", "driver"), 3)], ids=["up-that-works", "run"])
def test_else_compose_speaks_alone(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    ended = run(tmp_path, *words, code=code)
    assert ended.returncode == code
    assert ended.stderr == f"docker: compose {' '.join(words)}\n"
