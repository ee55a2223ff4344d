"""Every fault that env-bundle can inject, in every phase of a session, with what its client must see.

After each cell no session, slot, handshake, close or task is left here, and no slot is held there.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from integration.resources.resources_server import Resources, Rollout, resources
from plain_http import PLAIN
from processes import RunningCommand, running_sync
from waiting import eventually

# fault, its settings:                          what the client sees
OPEN = {
    "late-handshake:duration=3":                "opened",
    "at-capacity":                              "opened",
    "http-503":                                 "opened",
    "http-500":                                 "502 env_protocol",
    "reap-slot:duration=60":                    "opened",
    "drop-before:phase=handshake":              "opened",
    "drop-during:phase=handshake":              "opened",
    "drop-after:phase=handshake":               "opened",
    "tcp-reset:phase=handshake":                "opened",
    "half-open:phase=handshake":                "opened",
    "drop-before:phase=reset":                  "opened",
    "drop-during:phase=reset":                  "opened",
    "drop-after:phase=reset":                   "opened",
    "tcp-reset:phase=reset":                    "opened",
    "half-open:phase=reset":                    "opened",
    "slow-step:phase=reset:duration=0.3":       "opened",
    "error-frame:phase=reset":                  "502 env_protocol",
    "malformed-frame:phase=reset":              "502 env_protocol",
    "wrong-type-frame:phase=reset":             "502 env_protocol",
    "huge-observation:phase=reset:size=300000": "413 payload_too_large",
}  # fmt: skip
CALL = {
    "drop-before:phase=step":                   "503 env_lost",
    "drop-during:phase=step":                   "503 env_lost",
    "drop-after:phase=step":                    "answered, scored",
    "tcp-reset:phase=step":                     "503 env_lost",
    "half-open:phase=step":                     "503 env_lost",
    "slow-step:phase=step:duration=0.3":        "answered, scored",
    "error-frame:phase=step":                   "answered with an error, no reward",
    "malformed-frame:phase=step":               "502 env_protocol",
    "wrong-type-frame:phase=step":              "502 env_protocol",
    "huge-observation:phase=step:size=300000":  "413 payload_too_large",
}  # fmt: skip
GOODBYE = (
    "drop-before:phase=close",
    "drop-during:phase=close",
    "drop-after:phase=close",
    "tcp-reset:phase=close",
    "half-open:phase=close",
    "slow-step:phase=close:duration=3",
    "error-frame:phase=close",
    "malformed-frame:phase=close",
    "wrong-type-frame:phase=close",
    "huge-observation:phase=close:size=300000",
)
IDLE = {
    "drop-before:phase=idle":                   "410 session_closed",
    "drop-during:phase=idle":                   "410 session_closed",
    "tcp-reset:phase=idle":                     "410 session_closed",
    "half-open:phase=idle":                     "503 env_lost",
    "error-frame:phase=idle":                   "502 env_protocol",
    "malformed-frame:phase=idle":               "502 env_protocol",
    "wrong-type-frame:phase=idle":              "502 env_protocol",
    "huge-observation:phase=idle:size=300000":  "410 session_closed",
}  # fmt: skip


@pytest.fixture(scope="module")
def bundle() -> Iterator[RunningCommand]:
    with running_sync("gym-env-bundle", "serve", "--port", "0", "--admin", "--max-sessions", "4") as running:
        yield running


@dataclass
class Cell:
    """One fault in force, once, and a server to meet it."""

    admin: httpx.AsyncClient
    found: Resources

    async def inject(self, fault: str) -> None:
        """Put `KIND[:key=value]…` in force for one strike."""
        kind, *pairs = fault.split(":")
        names = {"phase": "phases", "duration": "duration_s", "size": "size_bytes"}
        fields: dict[str, Any] = {names[key]: value for key, _, value in (pair.partition("=") for pair in pairs)}
        if "phases" in fields:
            fields["phases"] = [fields["phases"]]
        answer = await self.admin.put("/admin/faults", json={"faults": [{"kind": kind, "count": 1, **fields}]})
        assert answer.status_code == 200, answer.text

    async def injected(self) -> bool:
        return bool((await self.admin.get("/admin/faults")).json()["faults"][0]["injected"])

    async def opened(self) -> Rollout:
        """A session that took one step and has a reward."""
        rollout = await self.found.opened(seed=1)
        assert (await rollout.call(arguments={"reward": 0.25})).status_code == 200
        return rollout

    async def slots_in_use(self) -> int:
        found: int = (await self.admin.get("/admin/stats")).json()["active"]
        return found


@pytest.fixture
async def cell(bundle: RunningCommand) -> AsyncIterator[Cell]:
    seconds: dict[str, Any] = {
        "connect_timeout_s": 0.5,
        "reset_timeout_s": 0.8,
        "step_timeout_s": 0.8,
        "patience_s": 8.0,
    }
    async with httpx.AsyncClient(base_url=bundle.url, trust_env=False, verify=PLAIN) as admin:
        async with resources(f"{bundle.url}/echo", max_frame_bytes=200_000, **seconds) as found:
            current = Cell(admin, found)
            await (await found.opened()).close()  # the tools are known: what follows is the fault's doing
            yield current
            assert await current.injected()
            await found.nothing_left()
            await admin.delete("/admin/faults")
        await eventually(lambda: _none(current))


async def _none(cell: Cell) -> bool:
    return await cell.slots_in_use() == 0


def said(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.json()['code']}"


async def masked(rollout: Rollout) -> bool:
    found: bool = (await rollout.verify()).json()["mask_sample"]
    return found


@pytest.mark.parametrize("fault", OPEN)
async def test_while_a_session_opens(cell: Cell, fault: str) -> None:
    await cell.inject(fault)
    rollout = await cell.found.seeded(seed=1)
    if OPEN[fault] != "opened":
        assert said(rollout.answer) == OPEN[fault]
        assert await masked(rollout)
        return
    assert rollout.answer.status_code == 200, rollout.answer.text
    if fault == "drop-after:phase=reset":
        await eventually(lambda: _none(cell))  # a step that is sent before the drop has come is lost with it
    await rollout.call(arguments={"reward": 0.5, "done": True})
    assert (await rollout.verify()).json()["reward"] == 0.5


@pytest.mark.parametrize("fault", CALL)
async def test_during_a_tool_call(cell: Cell, fault: str) -> None:
    rollout = await cell.found.opened(seed=1)
    await cell.inject(fault)
    answer = await rollout.call(arguments={"reward": 0.5, "done": True})
    expected = CALL[fault]
    if expected == "answered, scored":
        assert answer.status_code == 200
        assert (await rollout.verify()).json()["reward"] == 0.5
    elif expected == "answered with an error, no reward":
        assert "error" in answer.json()
        assert said(await rollout.verify()) == "502 invalid_reward"
    else:
        assert said(answer) == expected
        assert (await rollout.call()).status_code == 410
        assert await masked(rollout)


@pytest.mark.parametrize("fault", GOODBYE)
async def test_during_verify(cell: Cell, fault: str) -> None:
    rollout = await cell.opened()
    await cell.inject(fault)
    verdict = (await rollout.verify()).json()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.25, False)
    await eventually(cell.injected)


@pytest.mark.parametrize("fault", GOODBYE)
async def test_during_a_close(cell: Cell, fault: str) -> None:
    rollout = await cell.opened()
    await cell.inject(fault)
    assert (await rollout.close()).status_code == 200
    await eventually(cell.injected)


@pytest.mark.parametrize("fault", IDLE)
async def test_while_a_session_is_idle(cell: Cell, fault: str) -> None:
    rollout = await cell.opened()
    await cell.inject(fault)  # the quiet spell that has begun is the fault's
    await eventually(cell.injected)
    if IDLE[fault] == "410 session_closed":
        await cell.found.nothing_left()
    answer = await rollout.call()
    assert said(answer) == IDLE[fault]
    assert await masked(rollout)
