"""Presence: one request is held at each server for as long as it is heard there, and held again when it ends."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from rollgym.common.errors import EnvLost, EnvRefused, RollgymError
from rollgym.driver.presence import Presence
from waiting import eventually

URL = "http://replica"
CUT = EnvLost("cut off")
REFUSED = EnvRefused("http://replica/owners/secret cannot be reached")


class Server:
    """Answers as told, then holds, or goes on with one answer."""

    def __init__(self, answers: Sequence[int | RollgymError], then: int | RollgymError | None = None) -> None:
        self._answers, self._then = list(answers), then
        self.asked = 0
        self.holds = False

    async def hold(self, base_url: str, cookies: Mapping[str, str]) -> int:
        assert (base_url, cookies) == (URL, {})
        self.asked += 1
        answer = self._answers.pop(0) if self._answers else self._then
        if answer is None:
            self.holds = True
            await asyncio.Event().wait()
            raise AssertionError("unreachable")
        if isinstance(answer, RollgymError):
            raise answer
        return answer


@pytest.mark.parametrize(
    "answers",
    [[204], [504], [CUT], [REFUSED], [CUT, 404], [204, 405, 404], [504, REFUSED, 404]],
    ids=["stopping", "proxy-limit", "cut", "refused", "cut-then-404", "stopped-then-404", "all-of-it"],
)
async def test_a_request_that_ended_is_held_again(answers: list[int | RollgymError]) -> None:
    server = Server(answers)
    held = Presence(server.hold, again_after_s=0.0)
    held.at(URL)
    await eventually(lambda: server.holds)
    held.at(URL)
    assert server.asked == len(answers) + 1
    await held.end()


@pytest.mark.parametrize("status", [400, 401, 404, 405, 422])
async def test_a_server_that_knows_no_owners_is_asked_once(status: int) -> None:
    server = Server([status])
    held = Presence(server.hold, again_after_s=0.0)
    held.at(URL)
    await eventually(lambda: server.asked and asyncio.all_tasks() == {asyncio.current_task()})
    held.at(URL)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert server.asked == 1


@pytest.mark.parametrize(
    ("first", "then"), [([], REFUSED), ([CUT], REFUSED), ([CUT], 404)], ids=["refused", "cut-off", "not-found"]
)
async def test_a_server_that_stays_away_is_asked_again_by_the_next_session_only(
    first: list[int | RollgymError], then: int | RollgymError
) -> None:
    server = Server(first, then)
    held = Presence(server.hold, again_after_s=0.0, given_up_after_s=0.05)
    held.at(URL)
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    asked = server.asked
    assert asked > len(first)
    held.at(URL)
    await eventually(lambda: server.asked > asked)
    await held.end()
