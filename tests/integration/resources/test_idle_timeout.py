"""`gym-resources serve --idle-timeout 1`, as processes: what is abandoned is reclaimed, what only takes long is not."""

from collections.abc import Iterator

import pytest

from integration.resources.commands import ROW, Pair, all_slots_free, client_of, log_lines, running_pair, seed
from waiting import eventually

IDLE_TIMEOUT_S, STEP_S = 1, 5


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with running_pair("--idle-timeout", str(IDLE_TIMEOUT_S)) as found:
        yield found


async def test_a_step_longer_than_the_idle_timeout_is_not_reclaimed(pair: Pair) -> None:
    async with client_of(pair.resources) as client:
        _, cookie = await seed(client)
        answer = await client.post("/step", json={"reward": 0.5, "delay_s": STEP_S}, headers=cookie)
        assert answer.status_code == 200, answer.text
        verdict = (await client.post("/verify", json=ROW, headers=cookie)).json()
        assert (verdict["reward"], verdict["mask_sample"]) == (0.5, False)
    assert not log_lines(pair.resources, "session reclaimed")
    await eventually(lambda: all_slots_free(pair.bundle.url))


async def test_an_abandoned_session_is_reclaimed_and_the_log_says_so(pair: Pair) -> None:
    async with client_of(pair.resources) as client:
        _, cookie = await seed(client)
        (listed,) = (await client.get("/sessions")).json()["sessions"]
        await eventually(lambda: all_slots_free(pair.bundle.url))

        for tool in ("step", "step", "no_such_tool"):
            refused = await client.post(f"/{tool}", json={}, headers=cookie)
            assert (refused.status_code, refused.json()["code"]) == (410, "session_reclaimed")
        verdict = (await client.post("/verify", json=ROW, headers=cookie)).json()
        assert (verdict["mask_sample"], verdict["reward"]) == (True, 0.0)
        assert verdict["failure_kind"] == "session_reclaimed"
    (line,) = log_lines(pair.resources, "session reclaimed")
    assert (line["session"], line["env"]) == (listed["session"], "echo")
    assert line["idle_s"] >= IDLE_TIMEOUT_S
