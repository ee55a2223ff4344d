"""What every service has by being one: liveness, readiness, metrics, limits, a token, a bounded stop."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from integration.common.pipes import full_pipe
from plain_http import PLAIN
from processes import RunningCommand, running_sync
from waiting import wait_until

PUMP = str(Path(__file__).with_name("services.py"))


def pump_words(*flags: str) -> tuple[str, ...]:
    return ("python", PUMP, "--port", "0", *flags)


@pytest.fixture(scope="module")
def pump() -> Iterator[RunningCommand]:
    with running_sync(*pump_words("--max-body-bytes", "2048")) as command:
        yield command


@pytest.fixture
def http(pump: RunningCommand) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pump.url, timeout=10, trust_env=False, verify=PLAIN) as client:
        yield client


def test_it_says_where_it_listens_on_its_first_line(pump: RunningCommand) -> None:
    assert pump.output().splitlines() == [f"pump listening on {pump.url}"]


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/metrics"])
def test_the_common_routes_answer(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 200


def test_metrics_show_the_process(http: httpx.Client) -> None:
    text = http.get("/metrics").text
    assert 'rollgym_gc_collections_total{generation="2"}' in text
    assert "rollgym_event_loop_lag_seconds_count" in text


def test_an_error_of_ours_is_its_status_its_words_and_no_secret(http: httpx.Client) -> None:
    answer = http.get("/busy")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")
    assert answer.json()["code"] == "env_busy"
    assert answer.json()["data"]["waited_s"] == 1
    assert "S3NT1NEL" not in answer.text


def test_a_bug_is_a_500_and_the_service_goes_on(http: httpx.Client) -> None:
    for _ in range(20):
        answer = http.get("/bug")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "a bug" not in answer.text
        assert http.get("/health").status_code == 200, "on the same connection"


@pytest.mark.parametrize(("path", "method", "status"), [("/nowhere", "GET", 404), ("/echo", "GET", 405)])
def test_a_wrong_address_answers_in_the_wire_form(http: httpx.Client, path: str, method: str, status: int) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"code", "message", "data"}


def test_a_body_up_to_the_limit_is_taken_and_one_over_it_is_refused(http: httpx.Client) -> None:
    assert http.post("/echo", content=b"x" * 2048).status_code == 200
    answer = http.post("/echo", content=b"x" * 2049)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert "2,048" in answer.json()["message"]


def test_a_body_that_hides_its_length_is_refused_as_well(http: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(4):
            yield b"x" * 1024

    answer = http.post("/echo", content=chunks())
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def test_work_ends_when_its_client_goes_away(pump: RunningCommand, http: httpx.Client) -> None:
    with socket.create_connection(("127.0.0.1", pump.port)) as gone:
        gone.sendall(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wait_until(lambda: http.get("/ended").json(), 10) == ["cancelled"]


def test_a_dependency_that_is_not_ok_makes_it_not_ready_but_alive() -> None:
    with running_sync(*pump_words("--tank", "empty")) as command, httpx.Client(trust_env=False) as http:
        answer = http.get(f"{command.url}/ready")
        assert (answer.status_code, answer.json()["checks"]) == (503, {"tank": "empty"})
        assert http.get(f"{command.url}/health").status_code == 200


def test_a_token_guards_everything_but_liveness() -> None:
    with running_sync(*pump_words("--token", "S3NT1NEL")) as command:
        with httpx.Client(base_url=command.url, trust_env=False) as http:
            assert [http.get(path).status_code for path in ("/", "/health", "/ready", "/metrics")] == [200] * 4
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "S3NT1NEL"}):
                answer = http.get("/ended", headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
            assert http.get("/ended", headers={"Authorization": "Bearer S3NT1NEL"}).status_code == 200
        assert "S3NT1NEL" not in command.log() + command.output()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_bounded_although_a_request_never_ends(number: signal.Signals) -> None:
    with running_sync(*pump_words("--stop-timeout", "2")) as command:
        hanging = threading.Thread(target=_ask_and_wait, args=(command.port,))
        hanging.start()
        wait_until(lambda: "hanging" in httpx.get(f"{command.url}/ended", trust_env=False, verify=PLAIN).json())
        began = time.monotonic()
        command.send(number)
        assert command.wait(12) == 0
        assert time.monotonic() - began < 8
        hanging.join(10)


def _ask_and_wait(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        client.settimeout(15)
        client.recv(1000)


def test_it_ends_with_its_parent() -> None:
    words = [sys.executable, *pump_words("--exit-with-parent", "--stop-timeout", "2")[1:]]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=nowhere) as process, killed(process):
        assert process.stdin is not None
        assert process.stdout is not None
        assert b"listening on" in process.stdout.readline()
        process.stdin.close()
        assert process.wait(15) == 0


@contextlib.contextmanager
def killed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever happens in the block, nothing of the process is left after it."""
    try:
        yield
    finally:
        process.kill()


def test_a_taken_port_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [sys.executable, PUMP, "--port", str(port)]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "taken" in ended.stderr


def test_it_serves_and_stops_although_nobody_reads_its_log() -> None:
    with full_pipe() as stuck:
        words = [sys.executable, *pump_words("--log-level", "debug")[1:]]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(words, stdin=nowhere, stdout=pipe, stderr=stuck) as process, killed(process):
            assert process.stdout is not None
            url = process.stdout.readline().decode().split()[-1]
            for _ in range(20):
                assert httpx.get(f"{url}/bug", trust_env=False, timeout=10, verify=PLAIN).status_code == 500
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(15) == 0
