"""Shards made into one run."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import ZeroRules, aggregate
from rollgym.driver.evals.merge import merge, refuse_output
from unit.driver.evals.artifacts import event, failure, masked, owed, result, write_run


def shards(folder: Path) -> list[ArtifactPaths]:
    a = write_run(
        folder,
        [result(1), result(0, reward=0.0)],
        name="a",
        inputs=[owed(0), owed(1), owed(2)],
        failures=[failure(2)],
        journal=[event("started", 1.0), event("failed", 5.0, (2, 0), terminal=True)],
    )
    b = write_run(
        folder,
        [masked(4), result(3)],
        name="b",
        inputs=[owed(3), owed(4), owed(5)],
        journal=[event("started", 2.0), event("drained", 3.0, (5, 0))],
    )
    return [a, b]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_merged_run_says_what_its_shards_said(tmp_path: Path) -> None:
    runs, output = shards(tmp_path), ArtifactPaths(tmp_path / "merged" / "all.jsonl")
    found = merge(runs, output, on_duplicate="refuse", zeros=ZeroRules())
    assert found.coverage() == {
        "expected": 6, "scored": 3, "masked": 1, "failed": 1, "drained": 1, "cancelled": 0, "missing": 0
    }  # fmt: skip
    assert aggregate([output]).coverage() == found.coverage()
    assert [row["_ng_task_index"] for row in lines(output.results)] == [0, 1, 3, 4]
    assert [row["_ng_task_index"] for row in lines(output.materialized_inputs)] == list(range(6))
    assert [line["at"] for line in lines(output.journal)] == [1.0, 2.0, 3.0, 5.0]
    assert lines(output.failures) == [failure(2)]


def test_a_refused_merge_leaves_what_was_there(tmp_path: Path) -> None:
    a = write_run(tmp_path, [result(0, reward=0.0)], name="a")
    b = write_run(tmp_path, [result(0, reward=1.0)], name="b")
    output = write_run(tmp_path / "merged", [result(9)])
    before = {path: path.read_bytes() for path in output.results.parent.iterdir()}
    with pytest.raises(ConfigurationError):
        merge([a, b], output, on_duplicate="refuse", zeros=ZeroRules())
    assert {path: path.read_bytes() for path in output.results.parent.iterdir()} == before


def test_the_same_input_owed_by_two_shards_is_owed_once(tmp_path: Path) -> None:
    a = write_run(tmp_path, [result(0)], name="a", inputs=[owed(0), owed(1)])
    b = write_run(tmp_path, [result(1)], name="b", inputs=[owed(0), owed(1)])
    output = ArtifactPaths(tmp_path / "out" / "all.jsonl")
    assert merge([a, b], output, on_duplicate="refuse", zeros=ZeroRules()).coverage()["expected"] == 2
    assert len(lines(output.materialized_inputs)) == 2


def test_zeros_are_in_the_metrics_only(tmp_path: Path) -> None:
    output = ArtifactPaths(tmp_path / "merged.jsonl")
    found = merge(shards(tmp_path), output, on_duplicate="refuse", zeros=ZeroRules(missing=True))
    assert found.coverage()["counted_as_zero"] == 1
    assert found.agents["agent"].statistics.rewards.mean == pytest.approx(2 / 4)
    assert len(lines(output.results)) == 4


@pytest.mark.parametrize(
    ("name", "overwrite", "said"),
    [("a.jsonl", True, "one of the shards"), ("there.jsonl", False, "--overwrite"), ("there.jsonl", True, None)],
    ids=["a-shard", "there", "to-be-replaced"],
)
def test_no_output_is_taken_by_surprise(tmp_path: Path, name: str, overwrite: bool, said: str | None) -> None:
    runs = shards(tmp_path)
    write_run(tmp_path, name="there")
    output = ArtifactPaths(tmp_path / name)
    if said is None:
        refuse_output(output, runs, overwrite=overwrite)
        return
    with pytest.raises(ConfigurationError, match=said):
        refuse_output(output, runs, overwrite=overwrite)
