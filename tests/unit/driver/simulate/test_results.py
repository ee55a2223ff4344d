"""What simulated agents answer is what the driver takes for a whole production result."""

import pytest

from rollgym.common import jsonx
from rollgym.driver.payloads import Payload
from rollgym.driver.simulate.agent_fleet import identity
from rollgym.driver.simulate.results import ResultTemplate


def test_a_result_names_its_rollout_and_carries_the_history_in_every_call() -> None:
    template = ResultTemplate.make(messages=3, characters=50, calls=2)
    result = jsonx.loads(b"".join(template.filled(4, 7)))
    trajectory = result["ng_trajectory"]
    assert (trajectory["task_id"], trajectory["rollout_id"]) == ("4", "4-7")
    assert {turn["rollout_id"] for turn in trajectory["turns"]} == {"4-7"}
    history = result["responses_create_params"]["input"]
    assert [len(message["content"]) for message in history] == [50, 50, 50]
    assert [call["request"]["input"] for call in trajectory["model_calls"]] == [history, history]


def test_its_bytes_are_made_once() -> None:
    template = ResultTemplate.make(messages=2, characters=10, calls=1)
    first, second = template.filled(0, 0), template.filled(1, 5)
    shared = [piece for piece in first if any(piece is other for other in second)]
    assert sum(map(len, shared)) > 0.95 * template.size_bytes


def test_by_default_it_is_half_a_megabyte() -> None:
    assert ResultTemplate.make(messages=80, characters=2000, calls=2).size_bytes == pytest.approx(500_000, rel=0.05)


def test_the_driver_sees_its_turns_tokens_and_reward() -> None:
    payload = Payload(b"".join(ResultTemplate.make(messages=2, characters=10, calls=2).filled(0, 0)))
    payload.build_perf(12.0)
    facts = payload.facts()
    assert facts.reward == 1.0
    assert facts.perf is not None
    assert (facts.perf["num_turns"], facts.perf["prompt_tokens"]) == (2, 80_000)
    assert facts.perf["token_observability_coverage"] == 1.0


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b'{"_ng_task_index":3,"_ng_rollout_index":12}', (3, 12, 0)),
        (b'{"_ng_task_index": 3, "_ng_rollout_index" : 1,"_ng_attempt_index":2}', (3, 1, 2)),
        (rb'{"text":"\"_ng_task_index\":9","_ng_task_index":1,"_ng_rollout_index":0}', (1, 0, 0)),
        (b"{}", (0, 0, 0)),
    ],
    ids=["plain", "spaces and attempt", "named in a text", "none"],
)
def test_a_rows_identity_is_found(row: bytes, expected: tuple[int, int, int]) -> None:
    assert identity(row) == expected
