"""The published NeMo Gym as a client of ours: its check of a resources server, its agent, its types.

Only where its virtual environment is given: it is large, and benchmarks/drivers/setup_peer.sh makes one.
"""

import asyncio
import subprocess
from pathlib import Path

import pytest

from integration.resources.commands import all_slots_free, bundle, resources_for, stats_of
from needs import peer_python
from waiting import eventually

PYTHON = peer_python("nemo-gym")
PROGRAM = Path(__file__).parent / "peers" / "nemo_gym_client.py"

pytestmark = [
    pytest.mark.skipif(not PYTHON.exists(), reason="ROLLGYM_PEER_NEMO_GYM names no interpreter that has nemo-gym"),
    pytest.mark.timeout(120),
]


@pytest.mark.parametrize("flags", [(), ("--tools-over-mcp",)], ids=["tools over HTTP", "over MCP too"])
async def test_it_plays_on_our_resources_server(flags: tuple[str, ...]) -> None:
    async with bundle() as env, resources_for(env.url, *flags) as server:
        command = [str(PYTHON), str(PROGRAM), server.url]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=100, check=False)
        assert ran.returncode == 0, ran.stderr
        assert (await stats_of(env.url))["steps"] == 1
        await eventually(lambda: all_slots_free(env.url))
