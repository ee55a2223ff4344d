"""Every fault, in every phase it strikes in, as a real client sees it: counted, and its slot given back."""

import asyncio
import time

import httpx
import pytest

from integration.env_bundle.client import Admin, ask, befalls, hear, next_thing, session, tell
from plain_http import PLAIN
from waiting import eventually

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}

EFFECTS = [
    # fault               phase        what the client sees instead of the answer
    ("at-capacity", "handshake", "CAPACITY_REACHED"),
    ("http-503", "handshake", "http 503"),
    ("http-500", "handshake", "http 500"),
    ("drop-before", "handshake", "cut"),
    ("drop-before", "reset", "cut"),
    ("drop-before", "step", "cut"),
    ("drop-before", "state", "cut"),
    ("drop-before", "close", "cut"),
    ("drop-before", "idle", "cut"),
    ("drop-during", "handshake", "cut"),
    ("drop-during", "reset", "cut"),
    ("drop-during", "step", "cut"),
    ("drop-during", "close", "cut"),
    ("drop-during", "idle", "cut"),
    ("drop-after", "handshake", "cut"),
    ("drop-after", "reset", "observation"),
    ("drop-after", "step", "observation"),
    ("drop-after", "close", "cut"),
    ("tcp-reset", "handshake", "cut"),  # a reset, which the websockets client reports as an end of file there
    ("tcp-reset", "reset", "reset"),
    ("tcp-reset", "step", "reset"),
    ("tcp-reset", "close", "reset"),
    ("tcp-reset", "idle", "reset"),
    ("half-open", "handshake", "silence"),
    ("half-open", "reset", "silence"),
    ("half-open", "step", "silence"),
    ("half-open", "close", "silence"),
    ("error-frame", "reset", "EXECUTION_ERROR"),
    ("error-frame", "step", "EXECUTION_ERROR"),
    ("error-frame", "close", "EXECUTION_ERROR"),
    ("error-frame", "idle", "EXECUTION_ERROR"),
    ("malformed-frame", "reset", "bad json"),
    ("malformed-frame", "step", "bad json"),
    ("malformed-frame", "idle", "bad json"),
    ("wrong-type-frame", "reset", "state"),
    ("wrong-type-frame", "step", "state"),
    ("wrong-type-frame", "state", "observation"),
    ("wrong-type-frame", "idle", "state"),
    ("huge-observation", "step", "observation"),
    ("huge-observation", "idle", "observation"),
]


@pytest.mark.parametrize(("kind", "phase", "effect"), EFFECTS, ids=[f"{kind}-{phase}" for kind, phase, _ in EFFECTS])
async def test_the_fault_is_seen_counted_and_over(url: str, admin: Admin, kind: str, phase: str, effect: str) -> None:
    before = admin.injected(kind)
    admin.put_faults({"kind": kind, "phases": [phase], "count": 1, "size_bytes": 1000})
    assert await befalls(url, phase=phase) == effect
    shown = admin.faults()["faults"][0]
    assert (shown["injected"], admin.injected(kind)) == (1, before + 1)
    await eventually(lambda: admin.active() == 0)
    assert await befalls(url, phase="step") == "observation"  # spent: the next session is healthy


async def test_a_late_handshake_is_late_and_then_fine(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "late-handshake", "duration_s": 0.3, "count": 1})
    started = time.monotonic()
    async with session(url) as socket:
        assert time.monotonic() - started >= 0.3
        assert (await ask(socket, "reset", {}))["type"] == "observation"


def test_tcp_reset_at_the_handshake_is_a_reset_on_the_socket(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "tcp-reset", "phases": ["handshake"]})
    with pytest.raises(httpx.ReadError, match="reset"):
        httpx.get(f"{url}/echo/ws", headers=UPGRADE, verify=PLAIN)


async def test_a_client_that_leaves_during_a_late_handshake_leaves_nothing(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "late-handshake", "duration_s": 60})
    assert await befalls(url, phase="handshake") == "silence"
    await eventually(lambda: admin.stats()["closes"].get("lost"))
    assert admin.active() == 0


async def test_a_slow_step_is_slow_and_answers_pings_meanwhile(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        admin.put_faults({"kind": "slow-step", "duration_s": 0.5, "phases": ["step"]})
        await tell(socket, "step", {"message": "hi"})
        async with asyncio.timeout(0.4):
            await (await socket.ping())
        assert (await hear(socket))["data"]["observation"]["message"] == "hi"


async def test_a_client_that_leaves_during_a_slow_step_frees_its_slot_at_once(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "slow-step", "duration_s": 60})
    async with session(url) as socket:
        await ask(socket, "reset", {})
        await tell(socket, "step", {"message": "hi"})
        await eventually(lambda: admin.faults()["faults"][0]["injected"] == 1)
    await eventually(lambda: admin.active() == 0)


async def test_half_open_answers_no_ping_and_no_close_and_holds_its_slot(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "half-open", "phases": ["step"], "count": 1})
    async with session(url, close_timeout=0.2) as socket:
        await ask(socket, "reset", {})
        await tell(socket, "step", {"message": "hi"})
        await eventually(lambda: admin.faults()["faults"][0]["injected"] == 1)
        pong = await socket.ping()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(pong), 0.2)
        assert admin.active() == 1
        await socket.close()
        assert socket.close_code == 1006
    await eventually(lambda: admin.active() == 0)


@pytest.mark.parametrize("kind", ["half-open", "drop-before", "tcp-reset", "error-frame"])
async def test_a_fault_of_the_phase_idle_strikes_a_session_that_is_idle_already(
    url: str, admin: Admin, kind: str
) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        admin.put_faults({"kind": kind, "phases": ["idle"], "count": 1})
        await eventually(lambda: admin.faults()["faults"][0]["injected"] == 1)
        if kind != "half-open":
            assert await next_thing(socket) != "silence"
        else:
            await tell(socket, "state")
            assert await next_thing(socket) == "silence"


async def test_half_open_with_a_duration_ends_in_a_dropped_connection(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "half-open", "phases": ["step"], "duration_s": 0.1})
    assert await befalls(url, phase="step", silence_s=5) == "cut"


@pytest.mark.parametrize(
    ("kind", "carried_out"),
    [("drop-before", 1), ("drop-during", 1), ("drop-after", 1), ("tcp-reset", 1), ("error-frame", 0)],
)
async def test_whether_the_step_was_carried_out(url: str, admin: Admin, kind: str, carried_out: int) -> None:
    before = admin.stats()["steps"]
    admin.put_faults({"kind": kind, "count": 1})
    await befalls(url, phase="step")
    assert admin.stats()["steps"] - before == carried_out


async def test_the_error_frame_carries_the_code_asked_for_and_the_session_goes_on(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "error-frame", "phases": ["reset"], "code": "VALIDATION_ERROR", "count": 1})
    async with session(url) as socket:
        assert (await ask(socket, "reset", {}))["data"]["code"] == "VALIDATION_ERROR"
        assert (await ask(socket, "reset", {}))["type"] == "observation"


@pytest.mark.parametrize("retry_after_s", [None, 7])
def test_http_503_at_the_upgrade_carries_retry_after_where_asked(
    url: str, admin: Admin, retry_after_s: int | None
) -> None:
    admin.put_faults({"kind": "http-503", "retry_after_s": retry_after_s})
    answer = httpx.get(f"{url}/echo/ws", headers=UPGRADE, verify=PLAIN)
    assert answer.status_code == 503
    assert answer.headers.get("retry-after") == (None if retry_after_s is None else "7")


async def test_a_huge_observation_is_the_answer_and_that_much_more(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "huge-observation", "size_bytes": 5_000_000, "count": 1})
    async with session(url) as socket:
        await ask(socket, "reset", {})
        answer = await ask(socket, "step", {"message": "hi"})
        assert answer["data"]["observation"]["message"] == "hi"
        assert len(answer["data"]["observation"]["injected_padding"]) == 5_000_000


async def test_reap_slot_frees_the_slot_while_the_socket_goes_on_answering(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "reap-slot", "duration_s": 0.2})
    before = admin.stats()["zombie_steps"]
    async with session(url) as socket:
        await ask(socket, "reset", {})
        assert admin.active() == 1
        await eventually(lambda: admin.active() == 0)
        assert (await ask(socket, "state"))["type"] == "state"
        assert (await ask(socket, "step", {"message": "still here"}))["data"]["reward"] == 0.0
        assert admin.stats()["zombie_steps"] == before + 1


async def test_reap_slot_strikes_after_a_step_that_took_too_long(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "reap-slot", "duration_s": 0.2})
    async with session(url) as socket:
        await ask(socket, "reset", {})
        await ask(socket, "step", {"delay_s": 0.4})
        assert admin.active() == 0


async def test_env_and_probability_restrict_a_fault(url: str, admin: Admin) -> None:
    admin.put_faults({"kind": "at-capacity", "env": "wordle"}, {"kind": "http-500", "probability": 0})
    assert await befalls(url, phase="step") == "observation"
    async with session(url, "wordle") as socket:
        assert (await hear(socket))["data"]["code"] == "CAPACITY_REACHED"


async def test_faults_can_be_replaced_and_lifted_while_sessions_run(url: str, admin: Admin) -> None:
    async with session(url) as socket:
        await ask(socket, "reset", {})
        admin.put_faults({"kind": "error-frame"})
        assert (await ask(socket, "step", {}))["type"] == "error"
        assert admin.lift_faults()["faults"][0]["injected"] == 1
        assert (await ask(socket, "step", {}))["type"] == "observation"
        assert admin.faults()["faults"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"{", 400, id="no-json"),
        pytest.param(b"[]", 422, id="no-object"),
        pytest.param(b'{"faults":[{"kind":"flood"}]}', 422, id="unknown-kind"),
        pytest.param(b'{"faults":[{"kind":"slow-step","chance":1}]}', 422, id="unknown-field"),
        pytest.param(b'{"faults":[{"kind":"http-503","phases":["step"]}]}', 422, id="phase-of-the-kind"),
        pytest.param(b'{"faults":[{"kind":"slow-step","env":"chess"}]}', 422, id="unknown-environment"),
    ],
)
def test_wrong_faults_are_refused_and_leave_those_in_force(url: str, admin: Admin, body: bytes, status: int) -> None:
    admin.put_faults({"kind": "slow-step", "count": 3})
    answer = httpx.put(f"{url}/admin/faults", content=body, verify=PLAIN)
    assert (answer.status_code, sorted(answer.json())) == (status, ["code", "data", "message"])
    assert admin.faults()["faults"][0]["count"] == 3
