"""A session's life: turns, endings, what is lost and what is told."""

import asyncio
import base64
import hashlib
import json
import time
from typing import Any

import pytest

from integration.resources.env_server import EnvServer, Session, env_server, error, observation
from integration.resources.resources_server import Resources, Rollout, resources
from waiting import eventually


async def test_parallel_calls_take_turns_in_order_of_arrival() -> None:
    async with env_server(rewards=(0.0,) * 50) as env, resources(env.url) as found:
        rollout = await found.opened()

        async def slow(session: Session, action: dict[str, Any]) -> str:
            await asyncio.sleep(0.02)
            return observation({"n": session.steps, "i": action["i"]}, 0.1)

        env.on_step = slow
        calls = []
        for number in range(8):
            calls.append(asyncio.create_task(rollout.call(arguments={"i": number})))
            await asyncio.sleep(0.005)
        answers = [(await call).json()["observation"] for call in calls]
        assert answers == [{"n": number + 1, "i": number} for number in range(8)]


async def test_verify_and_close_wait_for_the_calls_before_them() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()

        async def slow(_: Session, __: Any) -> str:
            await asyncio.sleep(0.4)
            return observation({}, 0.75, True)

        env.on_step = slow
        call = asyncio.create_task(rollout.call())
        await eventually(lambda: env.stats.steps)
        verifying = asyncio.create_task(rollout.verify())
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(rollout.close())
        assert (await call).status_code == 200
        assert (await verifying).json()["reward"] == 0.75
        assert (await closing).status_code == 200


async def test_past_64_waiting_calls_a_session_refuses_more() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        go_on = asyncio.Event()

        async def wait(_: Session, __: Any) -> str:
            await go_on.wait()
            return observation({}, 0.0)

        env.on_step = wait
        calls = [asyncio.create_task(rollout.call()) for _ in range(70)]
        await eventually(lambda: sum(call.done() for call in calls) == 5)
        go_on.set()
        statuses = sorted([(await call).status_code for call in calls])
        assert statuses == [200] * 65 + [429] * 5


async def test_verify_twice_answers_the_same() -> None:
    async with env_server(rewards=(0.25, 0.5)) as env, resources(env.url) as found:
        rollout = await found.opened()
        await rollout.call()
        first, second = await rollout.verify(), await rollout.verify()
        assert (first.status_code, first.content) == (200, second.content)
        assert first.json()["reward"] == 0.25
        assert (await rollout.call()).status_code == 410
        await found.nothing_left()
        assert env.stats.closes == 1


async def test_close_is_idempotent_and_the_environment_sees_one() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        answers = await asyncio.gather(*(rollout.close() for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert all(answer.json() == {"resources_session_id": rollout.seed["session_id"]} for answer in answers)
        assert sorted(answer.headers["x-rollgym-close"] for answer in answers) == ["already closed"] * 19 + ["closed"]
        assert (await rollout.close()).headers["x-rollgym-close"] == "already closed"
        assert (env.stats.closes, env.stats.active) == (1, 0)
        assert (await rollout.verify()).status_code == 410


async def test_close_after_verify_changes_nothing() -> None:
    async with env_server() as env, resources(env.url) as found:
        rollout = await found.opened()
        await rollout.call()
        before = (await rollout.verify()).json()
        assert (await rollout.close()).headers["x-rollgym-close"] == "already closed"
        assert (await rollout.verify()).json() == before
        await found.nothing_left()
        assert env.stats.closes == 1


async def test_a_silent_goodbye_holds_up_nobody() -> None:
    async with env_server(answers_close=False) as env, resources(env.url, close_timeout_s=2.0) as found:
        rollouts = [await found.opened() for _ in range(10)]
        started = time.monotonic()
        await asyncio.gather(*(rollout.close() for rollout in rollouts))
        assert time.monotonic() - started < 1.5
        await found.nothing_left()


async def test_a_close_cuts_a_step_off_that_takes_too_long() -> None:
    async with env_server() as env, resources(env.url, close_wait_s=0.2) as found:
        rollout = await found.opened()

        async def never(session: Session, _: Any) -> None:
            await session.connection.wait_closed()

        env.on_step = never
        call = asyncio.create_task(rollout.call())
        await eventually(lambda: env.stats.steps)
        assert (await rollout.close()).headers["x-rollgym-close"] == "closed"
        assert (await call).status_code == 410
        await found.nothing_left()


async def test_a_client_that_leaves_during_a_step_frees_the_slot() -> None:
    async with env_server() as env, resources(env.url, step_timeout_s=60) as found:
        rollout = await found.opened()

        async def never(session: Session, _: Any) -> None:
            await session.connection.wait_closed()

        env.on_step = never
        call = asyncio.create_task(rollout.call())
        await eventually(lambda: env.stats.steps)
        call.cancel()
        await found.nothing_left()
        verdict = (await rollout.verify()).json()
        assert (verdict["mask_sample"], verdict["failure_kind"]) == (True, "cancelled")


async def drop(session: Session, _: Any) -> None:
    session.abort()


async def drop_with_a_reset(session: Session, _: Any) -> None:
    session.reset_by_peer()


async def go_away(session: Session, _: Any) -> None:
    await session.connection.close(1012)


async def say_nothing(session: Session, _: Any) -> None:
    await session.connection.wait_closed()


def say(text: str | bytes) -> Any:
    async def answer(_: Session, __: Any) -> str | bytes:
        return text

    return answer


LOSSES = {
    "dropped": (drop, 503, "env_lost"),
    "reset by peer": (drop_with_a_reset, 503, "env_lost"),
    "closed with 1012": (go_away, 503, "env_lost"),
    "no answer": (say_nothing, 503, "env_lost"),
    "no JSON": (say("hello"), 502, "env_protocol"),
    "another type": (say('{"type":"state","data":{}}'), 502, "env_protocol"),
    "bytes that are no text": (say(b"\xff\xfe"), 502, "env_protocol"),
    "an error that ends the session": (say(error("SESSION_ERROR", "gone")), 503, "env_lost"),
    "an error of the protocol": (say(error("UNKNOWN_TYPE", "what?")), 502, "env_protocol"),
}


@pytest.mark.parametrize("name", LOSSES)
async def test_a_session_lost_during_a_step_is_masked_and_the_step_never_sent_again(name: str) -> None:
    hook, status, kind = LOSSES[name]
    async with env_server() as env, resources(env.url, step_timeout_s=0.4) as found:
        rollout = await found.opened()
        env.on_step = hook
        answer = await rollout.call()
        assert (answer.status_code, answer.json()["code"]) == (status, kind)
        assert len(env.stats.steps) == 1
        again = await rollout.call()
        assert (again.status_code, again.json()["code"]) == (410, "session_closed")
        verdict = (await rollout.verify()).json()
        assert (verdict["mask_sample"], verdict["reward"], verdict["failure_kind"]) == (True, 0.0, kind)
        assert verdict["failure_reason"]
        assert verdict["response"] == {"id": "resp_1", "output": []}
        await found.nothing_left()
        await eventually(lambda: env.stats.active == 0)
        assert len(env.stats.steps) == 1


async def test_a_late_answer_is_never_taken_for_the_next() -> None:
    async with env_server() as env, resources(env.url, step_timeout_s=0.2) as found:
        rollout = await found.opened()

        async def late(session: Session, _: Any) -> str:
            await asyncio.sleep(0.4)
            return observation({"late": session.steps}, 1.0, True)

        env.on_step = late
        assert (await rollout.call()).status_code == 503
        await asyncio.sleep(0.3)
        assert (await rollout.call()).status_code == 410


@pytest.mark.parametrize("code", ["EXECUTION_ERROR", "VALIDATION_ERROR"])
async def test_the_environments_own_error_goes_to_the_model_and_the_episode_goes_on(code: str) -> None:
    async with env_server(rewards=(0.5,)) as env, resources(env.url) as found:
        rollout = await found.opened()
        env.on_step = say(error(code, "that move is not allowed", errors=[{"loc": ["x"]}]))
        answer = await rollout.call()
        assert (answer.status_code, answer.json()) == (
            200,
            {"error": "that move is not allowed", "errors": [{"loc": ["x"]}]},
        )
        env.on_step = None
        await rollout.call()
        assert (await rollout.verify()).json()["mask_sample"] is False


async def test_a_socket_lost_before_the_first_step_is_had_again() -> None:
    async with env_server(rewards=(0.5,)) as env, resources(env.url) as found:
        rollout = await found.opened(seed=7)
        await env.stop()
        await eventually(lambda: found.leftovers()["held"] == 0)
        assert found.metric("rollgym_sessions_open") == 0
        await env.start()
        answer = await rollout.call()
        assert answer.json()["observation"] == {"seed": 7, "n": 1}
        assert found.metric("rollgym_sessions_open") == 1
        assert (await rollout.verify()).json()["reward"] == 0.5


async def test_without_a_seed_another_episode_is_not_taken_for_the_same() -> None:
    async with env_server() as env, resources(env.url) as found:

        async def numbered(session: Session) -> str:
            return observation({"episode": session.number})

        env.on_reset = numbered
        rollout = await found.opened()
        await env.stop()
        await eventually(lambda: found.leftovers()["held"] == 0)
        await env.start()
        assert (await rollout.call()).status_code == 503
        assert (await rollout.verify()).json()["failure_kind"] == "env_lost"
        await found.nothing_left()


async def test_a_socket_lost_between_steps_is_noticed_at_once() -> None:
    async with env_server(rewards=(0.1, 0.2, 0.3)) as env, resources(env.url) as found:
        rollout = await found.opened(seed=1)
        await rollout.call()
        await env.stop()
        await found.nothing_left()
        assert found.metric("rollgym_sessions_open") == 0
        assert (await rollout.call()).status_code == 410


async def test_an_episode_that_was_over_before_its_socket_went_is_scored() -> None:
    async with env_server(rewards=(0.5,)) as env, resources(env.url) as found:
        rollout = await found.opened()
        await rollout.call()
        await env.stop()
        await found.nothing_left()
        verdict = (await rollout.verify()).json()
        assert (verdict["mask_sample"], verdict["reward"], verdict["failure_kind"]) == (False, 0.5, "env_lost")


async def reclaimed(found: Resources, rollout: Rollout) -> None:
    await eventually(lambda: found.metric('rollgym_sessions_closed_total{reason="reclaimed"}') == 1)
    answer = await rollout.call()
    assert (answer.status_code, answer.json()["code"]) == (410, "session_reclaimed")


async def test_an_idle_session_is_reclaimed_and_its_episode_torn_down() -> None:
    async with env_server() as env, resources(env.url, idle_timeout_s=0.3) as found:
        rollout = await found.opened()
        await reclaimed(found, rollout)
        await found.nothing_left()
        assert (env.stats.active, env.stats.closes) == (0, 1)
        verdict = (await rollout.verify()).json()
        assert (verdict["mask_sample"], verdict["failure_kind"]) == (True, "session_reclaimed")
        assert (await rollout.close()).headers["x-rollgym-close"] == "already closed"


async def test_a_session_whose_step_is_long_is_not_idle() -> None:
    async with env_server() as env, resources(env.url, idle_timeout_s=0.2) as found:
        rollout = await found.opened()

        async def slow(_: Session, __: Any) -> str:
            await asyncio.sleep(1.0)
            return observation({}, 0.5, True)

        env.on_step = slow
        assert (await rollout.call()).status_code == 200
        assert (await rollout.verify()).json()["reward"] == 0.5


@pytest.mark.parametrize("behaviour", ["quiet between steps", "one long step"])
async def test_a_pause_longer_than_the_environments_own_timeout_masks(behaviour: str) -> None:
    async with env_server(rewards=(0.1, 0.2)) as env, resources(env.url, env_session_timeout={"env": 0.3}) as found:
        rollout = await found.opened()
        if behaviour == "one long step":

            async def slow(_: Session, __: Any) -> str:
                await asyncio.sleep(0.5)
                return observation({}, 1.0, True)

            env.on_step = slow
        else:
            await rollout.call()
            await asyncio.sleep(0.4)
        answer = await rollout.call()
        assert (answer.status_code, answer.json()["code"]) == (410, "session_reclaimed")
        verdict = (await rollout.verify()).json()
        assert (verdict["mask_sample"], verdict["failure_kind"]) == (True, "session_reclaimed")
        await found.nothing_left()


async def test_an_error_on_reset_releases_its_slot() -> None:
    async with env_server() as env, resources(env.url) as found:

        async def every_second(session: Session) -> str:
            failed = session.number % 2 == 0
            return error("EXECUTION_ERROR", "reset failed") if failed else observation({})

        env.on_reset = every_second
        rollouts = [await found.seeded() for _ in range(20)]
        assert [rollout.answer.status_code for rollout in rollouts] == [200, 502] * 10
        for rollout in rollouts:
            await rollout.call()
            await rollout.verify()
            await rollout.close()
        await found.nothing_left()
        await eventually(lambda: env.stats.active == 0)


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shakes hands, answers two frames, and then nothing, pings included."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"GET /ws" not in head:
        writer.write(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        return
    name = b"sec-websocket-key: "
    key = next(line[len(name) :] for line in head.split(b"\r\n") if line.lower().startswith(name))
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    writer.write(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
    writer.write(b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    for answer in (error("VALIDATION_ERROR", "?"), observation({})):
        await reader.read(1000)
        size = [len(answer)] if len(answer) < 126 else [126, 0, len(answer)]
        writer.write(b"\x81" + bytes(size) + answer.encode())
        await writer.drain()
    while await reader.read(1000):
        pass
    writer.close()


async def test_a_ping_without_a_pong_ends_the_session() -> None:
    """A server that was stopped: it answers neither pings nor anything else, and its socket stays open."""

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, resources(url, ping_interval_s=0.1, ping_timeout_s=0.3, step_timeout_s=0.3) as found:
        rollout = await found.opened()
        await eventually(lambda: found.leftovers()["held"] == 0)
        assert (await rollout.verify()).json()["failure_kind"] == "env_lost"


async def test_a_step_longer_than_the_ping_interval_survives(env_that_answers_pings: EnvServer) -> None:
    env = env_that_answers_pings
    async with resources(env.url, ping_interval_s=0.05, step_timeout_s=5.0) as found:
        rollout = await found.opened()

        async def slow(_: Session, __: Any) -> str:
            await asyncio.sleep(0.6)
            return observation({}, 1.0, True)

        env.on_step = slow
        assert json.loads((await rollout.call()).text)["done"] is True


@pytest.fixture
async def env_that_answers_pings() -> Any:
    async with env_server() as env:
        yield env
