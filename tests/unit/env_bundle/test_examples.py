"""The shipped examples: the gridsim tasks and what skill earns on them, and the environment of one's own."""

import json
import runpy
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from rollgym.env_bundle.environments.gridsim.day import make_day
from rollgym.env_bundle.registry import load
from unit.env_bundle.playing import play_day, reset, step

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TASKS = EXAMPLES / "gridsim" / "tasks.jsonl"
MEANS = {"novice": 0.3074, "competent": 0.6794, "expert": 0.9208}


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in TASKS.read_text(encoding="utf-8").split("\n") if line]


def test_the_tasks_are_what_their_script_writes() -> None:
    written = list(runpy.run_path(str(EXAMPLES / "gridsim" / "make_tasks.py"))["tasks"]())
    assert rows() == written


def test_there_are_200_days_for_every_skill_and_season() -> None:
    found = rows()
    assert [row["seed"] for row in found] == list(range(200))
    assert {row["env"] for row in found} == {"gridsim"}
    assert [row["tags"]["season"] for row in found] == [make_day(row["seed"]).season for row in found]
    assert Counter(row["scripted"]["skill"] for row in found) == {"novice": 67, "competent": 67, "expert": 66}
    assert all(row["tags"]["skill"] == row["scripted"]["skill"] for row in found)
    assert all(len(row["responses_create_params"]["input"]) == 2 for row in found)


async def test_each_skill_earns_on_its_days_what_the_readme_says() -> None:
    rewards = defaultdict(list)
    for row in rows():
        skill = row["scripted"]["skill"]
        rewards[skill].append((await play_day(row["seed"], skill))["reward"])
    means = {skill: statistics.mean(values) for skill, values in rewards.items()}
    assert means == pytest.approx(MEANS, abs=0.0005)
    readme = (EXAMPLES / "gridsim" / "README.md").read_text(encoding="utf-8")
    assert all(f"| {mean:.2f} |" in readme for mean in MEANS.values())


async def test_the_environment_of_ones_own_is_won_by_halving() -> None:
    hunt = load(str(EXAMPLES / "environments" / "number_hunt.py"))()
    await reset(hunt, seed=11)
    low, high = 1, 100
    while True:
        guess = (low + high) // 2
        answer = await step(hunt, guess=guess)
        if answer["done"]:
            break
        low, high = (guess + 1, high) if answer["observation"]["message"] == "Higher." else (low, guess - 1)
    assert (answer["observation"]["message"], answer["reward"]) == ("Found.", 1.0)
