"""The command: mistakes are one line and exit 2, the port is said, a stop ends open sessions in time."""

import asyncio
import signal
import socket as sockets
import subprocess

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from integration.env_bundle.client import Admin, ask, hear, session, tell
from processes import command_path, running, running_sync
from waiting import eventually


def serve(*flags: str) -> subprocess.CompletedProcess[str]:
    argv = [command_path("gym-env-bundle"), "serve", "--port", "0", *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


def test_a_mistake_exits_2_and_says_what_is_wrong() -> None:
    ended = serve("--environment", "nowhere.py")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "gym-env-bundle: nowhere.py: no file nowhere.py\n"


def test_a_taken_port_exits_2_and_names_it() -> None:
    with sockets.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve("--port", str(port))
    assert ended.returncode == 2
    assert f"127.0.0.1:{port}" in ended.stderr


async def test_sigterm_ends_open_sessions_of_every_kind_in_time() -> None:
    faults = ["--fault=half-open:phase=step:env=wordle", "--fault=late-handshake:duration=600:env=gridsim"]
    async with running("gym-env-bundle", "serve", "--port", "0", "--admin", "--ping-interval", "0", *faults) as bundle:
        admin = Admin(bundle.url)
        late = asyncio.create_task(open_and_wait(bundle.url))
        async with (
            session(bundle.url) as idle,
            session(bundle.url) as busy,
            session(bundle.url, "wordle") as silent,
        ):
            for socket in (idle, busy, silent):
                await ask(socket, "reset", {})
            await tell(busy, "step", {"delay_s": 600})
            await tell(silent, "step", {"guess": "crane"})
            await eventually(lambda: admin.faults()["injected"] == {"half-open": 1, "late-handshake": 1})
            admin.close()
            assert await bundle.stop(signal.SIGTERM, timeout_s=8) == 0
            for socket in (idle, busy, silent):
                with pytest.raises(ConnectionClosed):
                    await hear(socket)
            with pytest.raises(InvalidHandshake):
                await late
        assert "Traceback" not in bundle.log()
        assert all(said in bundle.log() for said in ("no idle timeout", "no pings", "faults are in force"))


async def open_and_wait(url: str) -> None:
    async with session(url, "gridsim", open_timeout=60):
        pass


def test_without_admin_there_are_no_admin_routes_and_a_token_guards_the_rest() -> None:
    with (
        running_sync("gym-env-bundle", "serve", "--port", "0", "--token", "s3cret") as bundle,
        httpx.Client(base_url=bundle.url, trust_env=False) as http,
    ):
        assert http.get("/health").status_code == 200
        assert http.get("/echo/health").status_code == 200
        assert http.get("/echo/schema").status_code == 401
        http.headers["Authorization"] = "Bearer s3cret"
        assert http.get("/echo/schema").status_code == 200
        assert http.get("/admin/faults").status_code == 404
        assert http.get("/admin/stats").status_code == 404
