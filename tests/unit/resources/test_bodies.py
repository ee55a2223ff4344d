"""Request bodies: task rows, caller-assigned seeds, closes; and what is no such thing."""

import json
from typing import Any

import pytest

from rollgym.common.errors import BadRequest
from rollgym.resources.bodies import parse, parse_close, parse_seed
from rollgym.resources.verify import VerifyBody

ROW = {"responses_create_params": {"input": []}, "env": "gridsim", "tags": {"season": "winter"}}
EPISODE = {"rollout_id": "r1", "attempt": 0}
CALLER = {"resources_session_id": "s1", "episode_id": EPISODE, "task_id": {"taskset": "t", "task_id": "1"}}


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("row", "reset"),
    [
        pytest.param({}, {}, id="neither"),
        pytest.param({"seed": 3}, {"seed": 3}, id="seed"),
        pytest.param({"seed": None, "reset": None}, {}, id="nulls"),
        pytest.param({"reset": {"day": "x"}}, {"day": "x"}, id="reset"),
        pytest.param({"seed": 3, "reset": {"day": "x"}}, {"seed": 3, "day": "x"}, id="both"),
        pytest.param({"seed": 3, "reset": {"seed": 4}}, {"seed": 4}, id="reset wins"),
        pytest.param({"seed": 2**70}, {"seed": 2**70}, id="a large seed"),
    ],
)
def test_what_a_row_resets_with(row: dict[str, Any], reset: dict[str, Any]) -> None:
    seed = parse_seed(body(**ROW, **row))
    assert (seed.env, json.loads(seed.reset), seed.caller) == ("gridsim", reset, None)


def test_a_caller_assigned_seed_holds_its_row_in_task_data() -> None:
    seed = parse_seed(body(**CALLER, task_data={**ROW, "seed": 5}))
    assert (seed.env, json.loads(seed.reset)) == ("gridsim", {"seed": 5})
    assert seed.caller is not None
    assert seed.caller.id == "s1"


def test_the_order_of_keys_and_a_left_out_attempt_make_no_other_episode() -> None:
    one = parse_seed(body(**CALLER, task_data={"a": 1, "b": 2})).caller
    two = parse_seed(body(**{**CALLER, "episode_id": {"rollout_id": "r1"}}, task_data={"b": 2, "a": 1})).caller
    assert one == two


@pytest.mark.parametrize(
    "change",
    [{"episode_id": {"rollout_id": "r1", "attempt": 1}}, {"task_data": {"a": 2}}, {"task_id": {"taskset": "u"}}],
)
def test_another_episode_or_task_is_another_seed(change: dict[str, Any]) -> None:
    seed = {**CALLER, "task_data": {"a": 1}}
    assert parse_seed(body(**seed)).caller != parse_seed(body(**{**seed, **change})).caller


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        pytest.param(b"{", "no JSON", id="no JSON"),
        pytest.param(b"[1]", "Expected `object`", id="no object"),
        pytest.param(b"\xff", "no JSON", id="no UTF-8"),
        pytest.param(body(env=5), "env", id="env is a number"),
        pytest.param(body(seed="3"), "`seed` must be an integer", id="seed is text"),
        pytest.param(body(seed=True), "`seed` must be an integer", id="seed is a boolean"),
        pytest.param(body(seed=1.5), "`seed` must be an integer", id="seed is a fraction"),
        pytest.param(body(reset=[1]), "`reset` must be an object", id="reset is a list"),
        pytest.param(body(resources_session_id="", episode_id=EPISODE), "1 to 500 characters", id="empty id"),
        pytest.param(body(resources_session_id="x" * 501, episode_id=EPISODE), "1 to 500", id="long id"),
        pytest.param(body(resources_session_id="s1"), "`episode_id` must be", id="no episode"),
        pytest.param(body(resources_session_id="s1", episode_id="r1"), "`episode_id` must be", id="episode is text"),
    ],
)
def test_seeds_that_are_none(raw: bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_seed(raw)


@pytest.mark.parametrize("raw", [b"", b"  ", b"{}", b'{"note":"by cookie"}'])
def test_a_close_without_an_id_is_the_cookies(raw: bytes) -> None:
    assert parse_close(raw) is None


def test_a_close_by_the_callers_id_names_the_same_episode_as_its_seed() -> None:
    closed, seeded = parse_close(body(**CALLER)), parse_seed(body(**CALLER)).caller
    assert closed is not None
    assert seeded is not None
    assert (closed.id, closed.episode) == (seeded.id, seeded.episode)


def test_a_lone_surrogate_in_a_row_does_no_harm() -> None:
    found = parse(b'{"response":{"text":"a\\ud800"},"responses_create_params":{}}', VerifyBody)
    assert json.loads(bytes(found.response)) == {"text": "a\\ud800"}
