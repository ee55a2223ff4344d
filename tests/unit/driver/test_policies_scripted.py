"""The scripted policy against the real environments, played in this process."""

import asyncio
import statistics
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, ModelError
from rollgym.driver.policies import ModelTurn, PolicySettings, SeedAnswer, TurnRequest, create_policy
from rollgym.driver.policies.items import function_call_output
from rollgym.driver.policies.scripted import wordle
from rollgym.driver.task_view import TaskView
from rollgym.env_bundle.environment import Environment, Observation, ResetArguments
from rollgym.env_bundle.environments.gridsim import GridSim
from rollgym.env_bundle.environments.wordle import Wordle
from rollgym.env_bundle.environments.wordle import marks as true_marks

MAX_TURNS = 60


def task(**fields: Any) -> TaskView:
    row = {"responses_create_params": {"input": "play"}, "_ng_task_index": 3, "_ng_rollout_index": 1, **fields}
    return TaskView.decode(jsonx.dumps(row))


def act(environment: Environment[Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """One call as the resources server would make it."""
    arguments = jsonx.loads(call["arguments"])
    if isinstance(environment, GridSim):
        arguments = {"type": "call_tool", "tool_name": call["name"], "arguments": arguments}
    return wire(environment.step(environment.parse_action(arguments)))


def wire(observation: Observation | Awaitable[Observation]) -> dict[str, Any]:
    """What the environment's server would send; the environments played here do not await."""
    assert isinstance(observation, Observation)
    said = observation.model_dump(mode="json")
    return {"reward": said.pop("reward"), "done": said.pop("done"), "observation": said}


def play(environment: Environment[Any], seed: int, **fields: Any) -> tuple[float, list[dict[str, Any]]]:
    """A whole episode: the sum of its rewards, and every call made."""
    opening = wire(environment.reset(ResetArguments(seed=seed)))
    session = create_policy(PolicySettings()).start(
        task(env=environment.name, **fields), SeedAnswer(observation=opening["observation"])
    )
    items: list[bytes] = [b'{"role":"user","content":"play"}']
    made: list[dict[str, Any]] = []
    total = 0.0
    for turn_no in range(1, MAX_TURNS):
        turn = asyncio.run(session.respond(TurnRequest(list(items), (), turn_no)))
        items += turn.output
        calls = [call for call in map(jsonx.loads, turn.output) if call["type"] == "function_call"]
        if not calls:
            return total, made
        for call in calls:
            answer = act(environment, call)
            made.append(call)
            total += answer["reward"] or 0.0
            result = answer["observation"].get("result", answer["observation"])
            items.append(jsonx.dumps(function_call_output(call["call_id"], jsonx.dumps(result).decode())))
            if answer["done"]:
                return total, made
    raise AssertionError("the script never ends")


def test_gridsim_skills_differ_and_are_what_they_were_measured_to_be() -> None:
    means = {
        skill: statistics.mean(play(GridSim(), seed, scripted={"skill": skill})[0] for seed in range(0, 200, 20))
        for skill in ("novice", "competent", "expert")
    }
    assert means["novice"] == pytest.approx(0.31, abs=0.08)
    assert means["competent"] == pytest.approx(0.68, abs=0.05)
    assert means["expert"] == pytest.approx(0.92, abs=0.03)


@pytest.mark.parametrize(("skill", "calls"), [("novice", 24), ("competent", 48), ("expert", 48)])
def test_a_gridsim_day_takes_24_dispatches(skill: str, calls: int) -> None:
    _, made = play(GridSim(), 5, scripted={"skill": skill})
    assert len(made) == calls
    assert sum(call["name"] == "dispatch" for call in made) == 24


def test_the_same_task_is_played_the_same_way_twice() -> None:
    assert play(GridSim(), 9, scripted={"skill": "expert"}) == play(GridSim(), 9, scripted={"skill": "expert"})


@pytest.mark.parametrize("skill", ["competent", "expert"])
def test_wordle_is_mostly_solved(skill: str) -> None:
    rewards = [play(Wordle(), seed, scripted={"skill": skill})[0] for seed in range(20)]
    assert sum(reward > 0.5 for reward in rewards) >= 15


def test_wordle_feedback_is_understood_as_the_environment_gives_it() -> None:
    pairs = [(guess, answer) for guess in wordle.words()[::7] for answer in wordle.words()[::5]]
    assert all(wordle.marks(guess, answer) == true_marks(guess, answer) for guess, answer in pairs)


async def respond(session: Any, turn_no: int, *results: Any) -> ModelTurn:
    outputs = [jsonx.dumps(function_call_output(f"c{n}", jsonx.dumps(r).decode())) for n, r in enumerate(results)]
    turn: ModelTurn = await session.respond(TurnRequest([b'{"role":"user","content":"x"}', *outputs], (), turn_no))
    return turn


async def test_listed_turns_are_replayed_word_for_word() -> None:
    turns = [
        {"name": "a", "arguments": {"x": 1}},
        [{"name": "b"}, {"name": "c", "arguments": "no json"}],
        {"text": "bye"},
    ]
    session = create_policy(PolicySettings()).start(task(scripted={"calls": turns}), SeedAnswer())
    played = [await respond(session, turn_no) for turn_no in (1, 2, 3, 4)]
    outputs = [[jsonx.loads(item) for item in turn.output] for turn in played]
    assert [[item.get("name") for item in output] for output in outputs] == [["a"], ["b", "c"], [None], [None]]
    assert [item["arguments"] for item in outputs[1]] == ["{}", "no json"]
    assert outputs[2][0]["content"][0]["text"] == outputs[3][0]["content"][0]["text"] == "bye"


async def test_a_turn_is_a_responses_object_without_invented_tokens() -> None:
    session = create_policy(PolicySettings()).start(task(env="echo"), SeedAnswer())
    turn = await respond(session, 1)
    response = jsonx.loads(turn.response)
    assert (response["object"], response["status"], response["model"]) == ("response", "completed", "scripted")
    assert "usage" not in response
    assert turn.usage is None
    assert turn.response_id == "resp_3-1_1"


async def test_echo_uses_reward_and_end_where_the_tool_takes_them() -> None:
    tool = {"type": "function", "name": "step", "parameters": {"properties": {"message": {}, "reward": {}}}}
    session = create_policy(PolicySettings()).start(task(env="echo"), SeedAnswer(tools=[jsonx.dumps(tool)]))
    sent = []
    for turn_no in (1, 2, 3):
        turn = await respond(session, turn_no)
        sent.append(jsonx.loads(jsonx.loads(turn.output[0])["arguments"]))
    assert sum(arguments["reward"] for arguments in sent) == 1.0
    assert [arguments["done"] for arguments in sent] == [False, False, True]


async def test_a_tools_error_is_met_by_calling_again_and_then_by_giving_up() -> None:
    session = create_policy(PolicySettings()).start(task(env="gridsim"), SeedAnswer())
    names = []
    for turn_no in range(1, 4):
        turn = await respond(session, turn_no, *([] if turn_no == 1 else [{"error": "flaky"}]))
        names.append(jsonx.loads(turn.output[0])["name"])
    last = await respond(session, 4, {"error": "flaky"})
    assert names == ["get_state"] * 3
    assert jsonx.loads(last.output[0])["content"][0]["text"].startswith("I give up: get_state")


async def test_an_answer_that_makes_no_sense_ends_the_rollout_as_a_model_error() -> None:
    session = create_policy(PolicySettings()).start(task(env="gridsim"), SeedAnswer(observation={"state": {"h": 1}}))
    with pytest.raises(ModelError, match="cannot read what the environment answered"):
        await respond(session, 1)


@pytest.mark.parametrize(
    ("settings", "row", "calls"),
    [
        pytest.param({"skill": "novice"}, {"scripted": {"skill": "expert"}}, "dispatch", id="settings-win"),
        pytest.param({}, {"scripted": {"skill": "novice"}}, "dispatch", id="row"),
        pytest.param({}, {}, "get_forecast", id="default"),
    ],
)
async def test_the_skill_comes_from_the_settings_then_the_row(
    settings: dict[str, Any], row: dict[str, Any], calls: str
) -> None:
    opening = wire(GridSim().reset(ResetArguments(seed=1)))["observation"]
    policy = create_policy(PolicySettings(**settings))
    turn = await respond(policy.start(task(env="gridsim", **row), SeedAnswer(observation=opening)), 1)
    assert jsonx.loads(turn.output[0])["name"] == calls


@pytest.mark.parametrize(
    ("row", "said"),
    [
        pytest.param({"env": "chess"}, "knows gridsim, wordle, echo, not 'chess'", id="unknown-env"),
        pytest.param({}, "not None", id="no-env"),
        pytest.param({"env": "echo", "scripted": {"skill": "genius"}}, "'genius' is none of novice", id="skill"),
        pytest.param({"scripted": {"calls": {"name": "x"}}}, "must be a list of turns", id="calls-no-list"),
        pytest.param({"scripted": {"calls": [[]]}}, "turn 1 has no call", id="empty-turn"),
        pytest.param({"scripted": {"calls": [{"name": "x"}, {"nam": "y"}]}}, "turn 2", id="call-without-name"),
        pytest.param({"scripted": {"calls": [{"name": "x", "arguments": 3}]}}, "must be an object", id="arguments"),
    ],
)
def test_a_task_without_a_script_is_refused_for_good(row: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        create_policy(PolicySettings()).start(task(**row), SeedAnswer())
    assert caught.value.data["terminal"] is True
