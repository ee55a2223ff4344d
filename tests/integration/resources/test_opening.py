"""Opening a session: what is waited out, what is not, for how long, and in which order."""

import asyncio
import socket
import time
from typing import Any

import pytest

from integration.resources.env_server import EnvServer, Session, env_server, error, observation
from integration.resources.resources_server import resources
from waiting import eventually


def refuse_at_capacity(env: EnvServer) -> None:
    env.refusing = True


def hang_the_handshake(env: EnvServer) -> None:
    env.handshake_delay_s = 30.0


def unavailable(env: EnvServer) -> None:
    env.upgrade_status = 503


def too_many(env: EnvServer) -> None:
    env.upgrade_status = 429


def drop_on_reset(env: EnvServer) -> None:
    async def drop(session: Session) -> None:
        session.abort()

    env.on_reset = drop


def reset_by_peer_on_reset(env: EnvServer) -> None:
    async def drop(session: Session) -> None:
        session.reset_by_peer()

    env.on_reset = drop


def go_away_on_reset(code: int) -> Any:
    def behave(env: EnvServer) -> None:
        async def leave(session: Session) -> None:
            await session.connection.close(code)

        env.on_reset = leave

    return behave


BUSY = {
    "at capacity": refuse_at_capacity,
    "accepts and never answers": hang_the_handshake,
    "HTTP 503": unavailable,
    "HTTP 429": too_many,
    "dropped during the reset": drop_on_reset,
    "reset by peer during the reset": reset_by_peer_on_reset,
    **{f"closed with {code}": go_away_on_reset(code) for code in (1001, 1011, 1012, 1013)},
}


@pytest.mark.parametrize("name", BUSY)
async def test_busy_is_waited_out(name: str) -> None:
    async with env_server() as env, resources(env.url, connect_timeout_s=0.3) as found:
        BUSY[name](env)
        seeding = asyncio.create_task(found.seeded(seed=1))
        await eventually(lambda: len(env.stats.handshakes) >= 2 and not seeding.done())
        env.refusing, env.handshake_delay_s, env.upgrade_status, env.on_reset = False, 0.0, None, None
        rollout = await seeding
        assert rollout.answer.status_code == 200
        assert found.metric('rollgym_session_open_attempts_total{outcome="busy"}') >= 1
        await rollout.close()
        await found.nothing_left()


@pytest.mark.parametrize("name", BUSY)
async def test_patience_bounds_the_whole(name: str) -> None:
    async with env_server() as env, resources(env.url, patience_s=1.0, connect_timeout_s=0.3) as found:
        BUSY[name](env)
        started = time.monotonic()
        rollout = await found.seeded()
        waited_s = time.monotonic() - started
        answer = rollout.answer.json()
        assert (rollout.answer.status_code, answer["code"]) == (503, "env_busy")
        assert 0.7 <= waited_s <= 2.0
        assert int(rollout.answer.headers["retry-after"]) >= 1
        assert answer["data"]["attempts"] >= 2
        assert answer["data"]["waited_s"] == pytest.approx(waited_s, abs=0.5)
        assert answer["data"]["last_cause"]
        await found.nothing_left()


def answers_on_reset(*answers: str | bytes) -> Any:
    def behave(env: EnvServer) -> None:
        async def answer(_: Session) -> str | bytes:
            return answers[0]

        env.on_reset = answer

    return behave


def status(code: int) -> Any:
    def behave(env: EnvServer) -> None:
        env.upgrade_status = code

    return behave


WRONG = {
    "HTTP 404": (status(404), "env_protocol"),
    "HTTP 401": (status(401), "env_protocol"),
    "HTTP 500": (status(500), "env_protocol"),
    "a validation error": (answers_on_reset(error("VALIDATION_ERROR", "no such day")), "env_protocol"),
    "an execution error": (answers_on_reset(error("EXECUTION_ERROR", "reset failed")), "env_protocol"),
    "no JSON": (answers_on_reset("hello"), "env_protocol"),
    "JSON that is no frame": (answers_on_reset("[1, 2]"), "env_protocol"),
    "a frame of another type": (answers_on_reset('{"type":"state","data":{}}'), "env_protocol"),
    "bytes that are no text": (
        answers_on_reset(b'{"type":"observation","data":{"observation":"\xff"}}'),
        "env_protocol",
    ),
    "closed with 1008": (go_away_on_reset(1008), "env_protocol"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_fails_at_once_after_one_attempt(name: str) -> None:
    behave, code = WRONG[name]
    async with env_server() as env, resources(env.url) as found:
        behave(env)
        rollout = await found.seeded()
        answer = rollout.answer.json()
        assert (rollout.answer.status_code, answer["code"], answer["data"]["attempts"]) == (502, code, 1)
        assert len(env.stats.handshakes) == 1
        await found.nothing_left()
        await eventually(lambda: env.stats.active == 0)


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "no-such-host.invalid"])
async def test_nothing_behind_the_url_is_refused_at_once(host: str) -> None:
    async with resources(f"http://{host}:{closed_port()}") as found:
        answer = (await found.seeded()).answer
        assert (answer.status_code, answer.json()["code"], answer.json()["data"]["attempts"]) == (502, "env_refused", 1)
        assert answer.json()["data"]["waited_s"] < (0.1 if host != "no-such-host.invalid" else 2.0)


async def test_tls_to_a_plain_server_is_refused_at_once() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, resources(url) as found:
        answer = (await found.seeded()).answer
        assert (answer.status_code, answer.json()["code"]) == (502, "env_refused")


async def test_the_environments_own_words_reach_the_client() -> None:
    async with env_server() as env, resources(env.url) as found:
        answers_on_reset(error("EXECUTION_ERROR", "upstream 401: api_key=S3NT1NEL-x is wrong " + "x" * 5000))(env)
        message = (await found.seeded()).answer.json()["message"]
        assert "upstream 401" in message
        assert "S3NT1NEL" not in message
        assert len(message) < 2_500


async def test_retry_after_is_honoured() -> None:
    refusing = env_server(upgrade_status=503, upgrade_headers={"Retry-After": "1"})
    async with refusing as env, resources(env.url) as found:
        seeding = asyncio.create_task(found.seeded())
        await eventually(lambda: env.stats.handshakes)
        env.upgrade_status = None
        assert (await seeding).answer.status_code == 200
        first, second = env.stats.handshakes
        assert second - first >= 1.0


async def test_no_patience_is_one_attempt() -> None:
    async with env_server(refusing=True) as env, resources(env.url, patience_s=0) as found:
        answer = (await found.seeded()).answer
        assert (answer.status_code, answer.json()["data"]["attempts"]) == (503, 1)
        assert env.stats.refused == 1


async def test_a_long_reset_is_no_late_handshake() -> None:
    async with env_server() as env, resources(env.url, connect_timeout_s=0.2) as found:

        async def slow(session: Session) -> str:
            await asyncio.sleep(0.6)
            return observation({"seed": session.seed})

        env.on_reset = slow
        assert (await found.opened(seed=1)).seed["observation"] == {"seed": 1}
        assert env.stats.opens == 1


async def test_a_long_attempt_that_fails_at_its_end_is_still_tried_again() -> None:
    async with env_server() as env, resources(env.url, connect_timeout_s=0.2) as found:

        async def late_then_gone(session: Session) -> str | None:
            if session.number > 1:
                return observation({})
            await asyncio.sleep(1.0)
            session.abort()
            return None

        env.on_reset = late_then_gone
        assert (await found.opened()).seed["session_id"]
        assert env.stats.opens == 2


async def test_more_waiters_than_slots_are_all_served_first_come_first_served() -> None:
    async with env_server(capacity=4, rewards=(1.0,)) as env, resources(env.url, patience_s=20) as found:

        async def play(number: int) -> None:
            rollout = await found.opened(seed=number)
            await rollout.call()
            assert (await rollout.verify()).json()["reward"] == 1.0

        tasks = []
        for number in range(60):
            tasks.append(asyncio.create_task(play(number)))
            if number % 10 == 9:
                await asyncio.sleep(0.05)
        await asyncio.gather(*tasks)
        seeds = [reset["seed"] for reset in env.stats.resets]
        assert sorted(seeds) == list(range(60))
        assert max(abs(place - seed) for place, seed in enumerate(seeds)) <= 10 + 4
        assert env.stats.peak == 4
        assert len(env.stats.handshakes) <= 60 * 1.5
        await found.nothing_left()


async def test_a_server_that_was_full_for_others_serves_when_they_leave() -> None:
    async with env_server(refusing=True) as env, resources(env.url) as found:
        seeding = [asyncio.create_task(found.opened(seed=number)) for number in range(20)]
        await eventually(lambda: env.stats.refused >= 2)
        env.refusing = False
        rollouts = await asyncio.gather(*seeding)
        assert len({rollout.seed["session_id"] for rollout in rollouts}) == 20


async def test_a_waiter_whose_client_leaves_stops_waiting_and_takes_no_slot() -> None:
    async with env_server(capacity=1) as env, resources(env.url, patience_s=30) as found:
        holder = await found.opened()
        impatient = asyncio.create_task(found.seeded(seed=1))
        patient = asyncio.create_task(found.seeded(seed=2))
        await eventually(lambda: found.server.waiting == 2)
        impatient.cancel()
        await eventually(lambda: found.server.waiting == 1)
        await holder.close()
        assert (await patient).seed["observation"] == {"seed": 2}
        assert env.stats.peak == 1


async def test_a_client_that_leaves_during_the_reset_leaves_no_episode() -> None:
    async with env_server() as env, resources(env.url) as found:

        async def never(session: Session) -> None:
            await session.connection.wait_closed()

        env.on_reset = never
        seeding = asyncio.create_task(found.seeded())
        await eventually(lambda: env.stats.resets)
        seeding.cancel()
        await found.nothing_left()


async def test_sessions_wait_for_the_server_to_come_back_only_where_it_can() -> None:
    """A restart: what was open is lost, what is seeded afterwards opens; nothing dead is kept."""
    async with env_server(rewards=(0.0, 1.0)) as env, resources(env.url) as found:
        playing = [await found.opened(seed=number) for number in range(5)]
        for rollout in playing:
            await rollout.call()
        await env.stop()
        await eventually(lambda: found.leftovers()["sessions"] == 0)
        assert (await found.seeded()).answer.json()["code"] == "env_refused"
        await env.start()
        fresh = await found.opened(seed=9)
        assert (await fresh.call()).status_code == 200
        verdicts = [(await rollout.verify()).json() for rollout in playing]
        assert all(each["mask_sample"] and each["failure_kind"] == "env_lost" for each in verdicts)
        assert (await fresh.verify()).json()["mask_sample"] is False


async def test_stopping_tells_those_who_wait() -> None:
    async with env_server(refusing=True) as env, resources(env.url, patience_s=30) as found:
        seeding = asyncio.create_task(found.seeded())
        await eventually(lambda: found.server.waiting == 1)
        found.server.stop_intake()
        answer = (await seeding).answer
        assert (answer.status_code, answer.json()["code"]) == (503, "env_busy")
        assert (await found.seeded()).answer.status_code == 503


async def test_a_server_whose_name_is_lost_for_a_while_is_waited_for_and_one_that_never_had_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: set[str] = set()
    looked_up: list[str] = []
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if host != "env.test":
            return resolve(host, *arguments, **options)
        looked_up.append(host)
        if host not in names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve("127.0.0.1", *arguments, **options)

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    async with env_server() as env, resources(f"http://env.test:{env.port}", patience_s=20) as found:
        assert (await found.seeded()).answer.json()["code"] == "env_refused"
        names.add("env.test")
        await (await found.opened()).close()
        names.clear()
        looked_up.clear()
        seeding = asyncio.create_task(found.opened())
        await eventually(lambda: len(looked_up) >= 2)
        names.add("env.test")
        await (await asyncio.wait_for(seeding, 10)).close()
        await found.nothing_left()
