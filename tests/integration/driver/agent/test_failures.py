"""How a rollout fails: with the right class, once, and with no session left open."""

import asyncio
import random
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from integration.driver.agent.resources_server import answering, drop, fake_resources, hang, refusing
from integration.driver.agent.rollouts import Heard, roll, step, task
from integration.driver.policies.conversations import responses_answer
from integration.driver.policies.model_server import Answer, model_server
from integration.driver.policies.model_server import settings as policy_settings
from rollgym.common.errors import (
    AgentRequestFailed,
    BadRequest,
    EnvBusy,
    EnvLost,
    EnvProtocolError,
    EnvRefused,
    InvalidReward,
    ModelError,
    RollgymError,
    ServerFull,
    SessionReclaimed,
    SessionUnknown,
    VerifyError,
)
from rollgym.common.failures import failure_class
from rollgym.driver.agent import RolloutProgress
from rollgym.driver.http_client import LocalResourceError
from rollgym.driver.policies import Usage, create_policy
from rollgym.driver.resources_answers import connection_errors
from rollgym.driver.resources_client import ResourcesClient
from waiting import eventually

ROW = (step(n=1), step(n=2))


@pytest.mark.parametrize(
    ("seed", "kind", "word"),
    [
        pytest.param(refusing(EnvBusy("patience spent", waited_s=5)), EnvBusy, "env_busy", id="busy"),
        pytest.param(refusing(ServerFull("full")), ServerFull, "env_busy", id="server-full"),
        pytest.param(refusing(EnvRefused("nothing there")), EnvRefused, "env_refused", id="refused"),
        pytest.param(refusing(EnvProtocolError("nonsense")), EnvProtocolError, "env_protocol", id="protocol"),
        pytest.param(refusing(BadRequest("no env")), AgentRequestFailed, "agent_request_failed", id="row-refused"),
        pytest.param(answering(status=503, body=b"busy"), EnvBusy, "env_busy", id="plain-503"),
        pytest.param(answering(status=502, body=b"<html>"), EnvRefused, "env_refused", id="plain-502"),
        pytest.param(answering(status=404, body=b"x"), EnvProtocolError, "env_protocol", id="plain-404"),
        pytest.param(answering(body=b"<html>hello"), EnvProtocolError, "env_protocol", id="html"),
        pytest.param(answering(body=b"[1]"), EnvProtocolError, "env_protocol", id="list"),
        pytest.param(drop, EnvLost, "env_lost", id="dropped"),
    ],
)
async def test_a_seed_that_fails_is_classed_and_never_sent_again(
    seed: Any, kind: type[RollgymError], word: str
) -> None:
    async with fake_resources(overrides={"seed_session": seed}) as server:
        with pytest.raises(kind) as caught:
            await roll(server.url, task(*ROW))
    assert failure_class(caught.value) == word
    assert server.arrivals.count("seed_session") == 1
    assert "step" not in server.arrivals


@pytest.mark.parametrize(
    ("tool", "kind", "word"),
    [
        pytest.param(refusing(SessionReclaimed("idle")), SessionReclaimed, "session_reclaimed", id="reclaimed"),
        pytest.param(refusing(SessionUnknown("who?")), SessionUnknown, "env_lost", id="unknown-session"),
        pytest.param(refusing(EnvLost("socket died")), EnvLost, "env_lost", id="env-lost"),
        pytest.param(refusing(EnvProtocolError("frame")), EnvProtocolError, "env_protocol", id="protocol"),
        pytest.param(answering(status=503, body=b"x"), EnvBusy, "env_busy", id="plain-503"),
        pytest.param(answering(status=421, body=b"x"), SessionUnknown, "env_lost", id="wrong-replica"),
        pytest.param(drop, EnvLost, "env_lost", id="dropped"),
    ],
)
async def test_a_lost_session_ends_the_rollout_closed_and_a_step_is_never_sent_again(
    tool: Any, kind: type[RollgymError], word: str
) -> None:
    async with fake_resources(overrides={"step": tool}) as server:
        with pytest.raises(kind) as caught:
            await roll(server.url, task(*ROW))
        assert server.open == set()
    assert failure_class(caught.value) == word
    assert server.arrivals == ["seed_session", "step", "close_session"]


@pytest.mark.parametrize(
    ("verify", "kind"),
    [
        pytest.param(answering(body=b'{"reward": NaN}'), InvalidReward, id="nan"),
        pytest.param(answering(body=b'{"reward": "1"}'), InvalidReward, id="text"),
        pytest.param(refusing(InvalidReward("no finite reward")), InvalidReward, id="said-by-the-server"),
        pytest.param(answering(status=500, body=b"Traceback"), VerifyError, id="500"),
        pytest.param(answering(body=b"<html>"), VerifyError, id="html"),
        pytest.param(refusing(BadRequest("response is missing")), VerifyError, id="refused"),
        pytest.param(drop, VerifyError, id="dropped"),
    ],
)
async def test_a_verify_that_fails_is_asked_once_and_the_session_closed(verify: Any, kind: type[RollgymError]) -> None:
    async with fake_resources(overrides={"verify": verify}) as server:
        with pytest.raises(kind):
            await roll(server.url, task(*ROW))
        assert server.open == set()
    assert server.arrivals.count("verify") == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(refusing(EnvLost("gone"), X_Rollgym_Masked="env_lost"), EnvLost, id="kind-in-the-body"),
        pytest.param(answering(status=503, body=b"", X_Rollgym_Masked="session_reclaimed"), EnvLost, id="header-only"),
    ],
)
async def test_a_verdict_masked_as_an_error_is_told_apart_from_busy(answer: Any, kind: type[RollgymError]) -> None:
    async with fake_resources(overrides={"verify": answer}) as server:
        with pytest.raises(kind) as caught:
            await roll(server.url, task(*ROW))
    assert caught.value.data["masked"] is True
    assert caught.value.data["failure_kind"] in ("env_lost", "session_reclaimed")
    assert server.arrivals.count("verify") == 1


async def test_nothing_listening_is_refused_at_once() -> None:
    with pytest.raises(EnvRefused, match="cannot be reached"):
        await roll("http://127.0.0.1:9", task(*ROW))


async def test_running_out_of_descriptors_is_not_called_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("socket.socket", exhausted)
    with pytest.raises(LocalResourceError, match="no file descriptor left"):
        await roll("http://127.0.0.1:9", task(*ROW))


async def test_a_failing_model_ends_the_rollout_closed_with_its_tokens_told() -> None:
    progress, heard = RolloutProgress(), Heard()
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    answers = Answer(responses_answer()), Answer({"error": "bad key"}, 401)
    async with model_server(*answers) as model, fake_resources() as server:
        policy = create_policy(policy_settings(model, "openai-responses"))
        row = task(params={"input": "x", "tools": [tool]})
        with pytest.raises(ModelError, match="401"):
            await roll(server.url, row, policy=policy, progress=progress, observer=heard)
        assert server.open == set()
    assert (progress.phase, progress.turns) == ("model", 1)
    assert progress.usage == Usage(100, 30, 50, 10, 150)
    assert [error for _, error in heard.models] == [None, "model_error"]


@pytest.mark.parametrize("phase", ["seed", "tools", "verify", "model"])
async def test_a_rollout_cut_off_in_any_phase_leaves_no_session(phase: str) -> None:
    path = {"seed": "seed_session", "tools": "step", "verify": "verify", "model": ""}[phase]
    progress = RolloutProgress()
    async with model_server(Answer(hang=True)) as model, fake_resources(overrides={path: hang}) as server:
        policy = create_policy(policy_settings(model, "openai-responses")) if phase == "model" else None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await roll(server.url, task(*ROW), policy=policy, progress=progress)
        assert server.open == set()
    assert progress.phase == phase
    assert progress.session_wait_s + progress.active_s > 0


async def test_a_seed_answered_just_after_the_cancellation_is_closed_all_the_same() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        asked.set()
        await answer.wait()
        return server.seeded(body)

    async with fake_resources(overrides={"seed_session": late}) as server:
        rollout = asyncio.create_task(roll(server.url, task(*ROW)))
        await asked.wait()
        rollout.cancel()
        answer.set()
        with pytest.raises(asyncio.CancelledError):
            await rollout
        assert server.arrivals == ["seed_session", "close_session"]
        assert server.open == set()


async def test_a_second_cancellation_does_not_stop_the_close() -> None:
    closing, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        closing.set()
        await go_on.wait()
        server.open.discard(session)
        return web.json_response({})

    async with fake_resources(overrides={"step": hang, "close_session": slow}) as server:
        rollout = asyncio.create_task(roll(server.url, task(*ROW)))
        await eventually(lambda: "step" in server.arrivals)
        rollout.cancel()
        await closing.wait()
        rollout.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await rollout
        assert server.open == set()


async def test_a_close_that_hangs_holds_nobody_longer_than_its_bound() -> None:
    async with fake_resources(overrides={"step": drop, "close_session": hang}) as server:
        async with asyncio.timeout(5):
            with pytest.raises(EnvLost):
                await roll(server.url, task(*ROW), close_timeout_s=0.2)


async def test_a_close_that_failed_is_tried_again() -> None:
    async def flaky(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        if server.arrivals.count("close_session") == 1:
            return web.Response(status=500)
        server.open.discard(session)
        return web.json_response({})

    async with fake_resources(overrides={"step": drop, "close_session": flaky}) as server:
        with pytest.raises(EnvLost):
            await roll(server.url, task(*ROW))
        assert server.open == set()


async def test_the_lost_sessions_other_calls_are_cancelled() -> None:
    async def first_is_lost(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        if body["n"] == 1:
            return await refusing(SessionReclaimed("idle"))(request, session, body)
        return await hang(request, session, body)

    heard = Heard()
    async with fake_resources(overrides={"step": first_is_lost}) as server:
        async with asyncio.timeout(5):
            with pytest.raises(SessionReclaimed):
                await roll(server.url, task([step(n=1), step(n=2)]), observer=heard)
    assert sorted(heard.tools) == ["cancelled", "failed"]


async def test_many_rollouts_cut_off_at_random_leave_no_session() -> None:
    async def slow(request: web.Request, session: str, body: Any) -> web.StreamResponse:
        await asyncio.sleep(random.uniform(0, 0.05))
        return server.seeded(body)

    async with fake_resources(overrides={"seed_session": slow, "step": hang}) as server:
        rollouts = [asyncio.create_task(roll(server.url, task(*ROW))) for _ in range(64)]
        await eventually(lambda: len(server.seeds) >= 32)
        for rollout in rollouts:
            rollout.cancel()
        await asyncio.wait(rollouts)
        assert server.open == set()


async def test_answers_larger_than_the_limit_are_refused() -> None:
    big = answering(body=b"x" * 2000)
    async with fake_resources(overrides={"big": big}) as server, ResourcesClient(max_answer_bytes=1000) as resources:
        with pytest.raises(RollgymError, match="larger than 1000 bytes"):
            await resources.post_json(f"{server.url}/big", b"{}")


def _kinds(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_kinds(child) for child in kind.__subclasses__() if child.__module__.startswith("aiohttp")))


@pytest.mark.parametrize(
    "kind",
    [*sorted(_kinds(aiohttp.ClientError), key=lambda kind: kind.__name__), TimeoutError, ConnectionResetError],
    ids=lambda kind: str(kind.__name__),
)
def test_every_error_of_the_http_library_gets_one_of_our_names(kind: type[Exception]) -> None:
    stand_in = type(kind.__name__, (kind,), {"__init__": lambda self: None, "__str__": lambda self: "it broke"})
    with pytest.raises(RollgymError, match=r"it broke|no URL"), connection_errors("http://h", EnvLost):
        raise stand_in()
