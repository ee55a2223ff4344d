"""Our sessions on servers made with the published `openenv` package, unmodified."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from integration.resources.resources_server import resources
from needs import peer_python
from waiting import wait_until

pytestmark = [pytest.mark.peer("openenv"), pytest.mark.timeout(100)]

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Peers:
    """Where the published servers listen: an MCP environment, a plain one, and one for two sessions at a time."""

    counter: str
    guessing: str
    full: str


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    ports = [free_port() for _ in range(3)]
    command = [str(peer_python("openenv")), str(PEERS / "serve.py"), *map(str, ports)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        for port in ports:
            wait_until(partial(httpx.get, f"http://127.0.0.1:{port}/health", trust_env=False), 90, 0.2)
        yield Peers(*(f"http://127.0.0.1:{port}" for port in ports))
    finally:
        process.terminate()
        process.wait(15)


async def test_an_mcp_environment(peers: Peers) -> None:
    async with resources(peers.counter) as found:
        rollout = await found.opened(seed=5, reset={"start": 1})
        assert {tool["name"] for tool in rollout.seed["tools"]} == {"count", "fail"}
        assert rollout.seed["observation"]["metadata"] == {"seed": 5, "start": 1}
        failed = await rollout.call("fail", {"reason": "just so"})
        assert failed.status_code == 200
        assert "just so" in failed.json()["error"]
        assert (await rollout.call("count", {"by": "x"})).status_code == 422
        assert (await rollout.call("count")).json() == {"count": 2}
        last = await rollout.call("count", {"by": 1})
        assert (last.json(), last.headers["x-rollgym-done"]) == ({"count": 3}, "1")
        verdict = (await rollout.verify()).json()
        assert (verdict["reward"], verdict["mask_sample"]) == (1.0, False)
        await found.nothing_left()


async def test_a_plain_environment(peers: Peers) -> None:
    async with resources(peers.guessing) as found:
        rollout = await found.opened(seed=7)
        (tool,) = rollout.seed["tools"]
        assert (tool["name"], tool["parameters"]["required"]) == ("step", ["number"])
        wrong = (await rollout.call(arguments={"number": 3})).json()
        assert (wrong["observation"]["hint"], wrong["reward"], wrong["done"]) == ("wrong", 0.0, False)
        assert (await rollout.call(arguments={"number": 13})).json() == {"error": "thirteen is not allowed"}
        assert (await rollout.call(arguments={"nummer": 3})).status_code == 422
        assert (await rollout.call(arguments={"number": 7})).headers["x-rollgym-done"] == "1"
        assert (await rollout.verify()).json()["reward"] == 1.0
        await found.nothing_left()


async def test_one_that_refuses_at_capacity_is_waited_for(peers: Peers) -> None:
    async with resources(peers.full, patience_s=20) as found:

        async def play(seed: int) -> float:
            rollout = await found.opened(seed=seed)
            await rollout.call(arguments={"number": seed})
            reward: float = (await rollout.verify()).json()["reward"]
            return reward

        assert await asyncio.gather(*(play(seed) for seed in range(20, 40))) == [1.0] * 20
        assert found.server.doors["env"].gate.max_sessions == 2
        await found.nothing_left()


async def test_one_that_stays_full_is_busy_and_says_so(peers: Peers) -> None:
    async with resources(peers.full, patience_s=1.0) as found:
        holders = [await found.opened() for _ in range(2)]
        answer = (await found.seeded()).answer
        assert (answer.status_code, answer.json()["code"]) == (503, "env_busy")
        assert "CAPACITY_REACHED" in answer.json()["data"]["last_cause"]
        for holder in holders:
            await holder.close()
