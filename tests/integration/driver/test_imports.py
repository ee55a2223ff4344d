"""Each command imports what it uses: words bring no library, and only an embedded run brings a server framework."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from integration.driver.runs import RunFolder
from integration.driver.stub_agent import stub_agent

LISTING_MODULES = """
import json, sys
from rollgym.driver.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps([code, sorted(sys.modules)]))
"""
SERVERS = {"fastapi", "starlette", "uvicorn", "rollgym.head.app"}
LIBRARIES = SERVERS | {"aiohttp", "asyncio", "httpx", "hydra", "jinja2", "prometheus_client", "pydantic", "structlog"}


def imported_by(words: Sequence[str]) -> tuple[set[str], str]:
    """The modules that a successful `gym` has at its end, and what it said on stderr."""
    command = [sys.executable, "-c", LISTING_MODULES, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    code, modules = json.loads(ended.stdout.splitlines()[-1])
    assert code == 0, ended
    return set(modules), ended.stderr


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        ("--help", LIBRARIES),
        ("version", LIBRARIES),
        ("eval run --help", SERVERS | {"aiohttp", "httpx", "hydra", "prometheus_client"}),
        ("eval compare --help", SERVERS | {"hydra", "jinja2", "pygal"}),
    ],
    ids=["help", "version", "run", "compare"],
)
def test_a_command_imports_no_library_that_it_does_not_use(words: str, unused: set[str]) -> None:
    modules, _ = imported_by(words.split())
    assert modules & unused == set()


def test_a_run_with_running_servers_has_no_server_framework_in_its_process(run: RunFolder) -> None:
    """Nor, since flags alone leave nothing to compose, Hydra."""
    files = ("--input", str(run.tasks(2).input), "--output", str(run.paths.results))
    with stub_agent() as stub:
        modules, said = imported_by(["eval", "run", *files, "--no-serve", "--head", stub.url])
    assert "Metrics of this driver" in said
    assert modules & (SERVERS | {"hydra", "jinja2", "omegaconf", "pydantic_settings", "pygal", "yaml"}) == set()
