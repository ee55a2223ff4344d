"""`gym-resources serve` as a process: its first line, its stop under load, its peers killed and started again."""

import asyncio
import json
import signal
import time
from typing import Any

import httpx
import pytest

from integration.resources.env_server import env_server
from processes import RunningCommand, running
from waiting import eventually

ROW: dict[str, Any] = {"responses_create_params": {"input": []}}
ECHO = ("--env", "echo={url}/echo")


def flags(url: str, *more: str) -> tuple[str, ...]:
    return ("gym-resources", "serve", "--port", "0", *(flag.format(url=url) for flag in ECHO), *more)


def bundle(*more: str, port: int = 0) -> Any:
    return running("gym-env-bundle", "serve", "--port", str(port), "--admin", *more)


async def active(bundle_url: str) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        found: int = (await client.get(f"{bundle_url}/admin/stats")).json()["active"]
        return found


async def is_free(bundle_url: str) -> bool:
    return await active(bundle_url) == 0


async def seed(client: httpx.AsyncClient) -> tuple[int, dict[str, str]]:
    answer = await client.post("/seed_session", json=ROW)
    cookie = answer.headers.get("set-cookie", "").split(";")[0]
    client.cookies.clear()
    return answer.status_code, {"cookie": cookie}


def client_of(command: RunningCommand) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    return httpx.AsyncClient(base_url=command.url, timeout=30, limits=limits, trust_env=False)


async def test_idle_sessions_are_reclaimed_and_the_log_says_so() -> None:
    async with bundle() as env, running(*flags(env.url, "--idle-timeout", "0.5")) as server:
        async with client_of(server) as client:
            _, cookie = await seed(client)
            await eventually(lambda: is_free(env.url))
            answer = await client.post("/step", json={}, headers=cookie)
            assert (answer.status_code, answer.json()["code"]) == (410, "session_reclaimed")
        (line,) = [json.loads(each) for each in server.log().splitlines() if "session reclaimed" in each]
        assert line["env"] == "echo"
        assert len(line["session"]) == 8
        assert line["idle_s"] >= 0.5


@pytest.mark.timeout(60)
async def test_a_stop_under_load_closes_every_session_in_time() -> None:
    async with bundle("--fault", "slow-step:duration=30:after=200") as env, running(*flags(env.url)) as server:
        async with client_of(server) as client:
            sessions = [cookie for _, cookie in await asyncio.gather(*(seed(client) for _ in range(256)))]
            assert await active(env.url) == 256
            calls = [asyncio.create_task(client.post("/step", json={}, headers=cookie)) for cookie in sessions]
            await asyncio.sleep(0.5)
            started = time.monotonic()
            assert await server.stop(timeout_s=12) == 0
            assert time.monotonic() - started < 10
            await asyncio.gather(*calls, return_exceptions=True)
            await eventually(lambda: is_free(env.url), 10)
        assert "never retrieved" not in server.log()
        assert "was destroyed but it is pending" not in server.log()


async def test_peers_that_never_answer_a_close_hold_up_no_stop() -> None:
    serve = ("gym-resources", "serve", "--port", "0", "--env")
    async with (
        env_server(answers_close=False) as env,
        running(*serve, f"env={env.url}") as server,
        client_of(server) as client,
    ):
        await asyncio.gather(*(seed(client) for _ in range(100)))
        assert env.stats.active == 100
        started = time.monotonic()
        assert await server.stop() == 0
        assert time.monotonic() - started < 8


@pytest.mark.timeout(60)
async def test_an_environment_server_killed_and_started_again() -> None:
    """Lost sessions are masked, new ones open, nothing hangs."""
    async with bundle() as env:
        port = env.port
        async with running(*flags(env.url, "--patience", "10")) as server, client_of(server) as client:
            playing = [cookie for _, cookie in [await seed(client) for _ in range(10)]]
            for cookie in playing:
                assert (await client.post("/step", json={"reward": 0.5}, headers=cookie)).status_code == 200
            env.send(signal.SIGKILL)
            await asyncio.to_thread(env.wait)
            listing = await eventually(lambda: none_open(client))
            assert listing
            async with bundle(port=port):
                status, fresh = await seed(client)
                assert status == 200
                assert (await client.post("/step", json={"reward": 0.5}, headers=fresh)).status_code == 200
                for cookie in playing:
                    verdict = (await client.post("/verify", json=ROW, headers=cookie)).json()
                    assert (verdict["mask_sample"], verdict["failure_kind"]) == (True, "env_lost")
                assert (await client.post("/verify", json=ROW, headers=fresh)).json()["reward"] == 0.5


async def none_open(client: httpx.AsyncClient) -> bool:
    return not (await client.get("/sessions")).json()["sessions"]


async def test_a_server_that_is_killed_leaves_no_slot_taken() -> None:
    watchful = bundle("--ping-interval", "0.2", "--ping-timeout", "0.5")
    async with watchful as env, running(*flags(env.url)) as server, client_of(server) as client:
        await seed(client)
        assert await active(env.url) == 1
        server.send(signal.SIGKILL)
        await eventually(lambda: is_free(env.url))


async def test_a_client_timeout_frees_the_episode_long_before_its_step_ends() -> None:
    slow = bundle("--fault", "slow-step:duration=20")
    async with slow as env, running(*flags(env.url)) as server, client_of(server) as client:
        _, cookie = await seed(client)
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/step", json={}, headers=cookie, timeout=0.5)
        await eventually(lambda: is_free(env.url), 5)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--workers", "2"), "run one worker"),
        (("--env", "nonsense"), "env"),
        (("--pateince", "3"), "did you mean --patience"),
    ],
    ids=["workers", "no URL", "typo"],
)
def test_mistakes_end_with_2_and_one_line(argv: tuple[str, ...], said: str) -> None:
    command = RunningCommand(("gym-resources", "serve", "--port", "0", *argv))
    try:
        assert command.wait() == 2
        assert said in command.log()
        assert "Traceback" not in command.log()
    finally:
        command.close()
