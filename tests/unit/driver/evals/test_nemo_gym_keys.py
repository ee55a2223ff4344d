"""Our aggregate beside the one that nemo-gym 0.7 made of the same rows (`benchmarks/aggregates` runs it anew)."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import write_aggregate

HERE = Path(__file__).parent
ROWS, EXPECTED = HERE / "nemo_gym_rows.jsonl", HERE / "nemo_gym_expected.json"
SECTIONS = ("agent_metrics", "key_metrics", "repeat_level_metrics", "group_level_metrics", "perf_summary")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from leaves(item, f"{path}[{position}]")
    else:
        yield path, value


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = ArtifactPaths(tmp_path_factory.mktemp("run") / "rows.jsonl")
    shutil.copy(ROWS, run.results)
    write_aggregate(run)
    entries: list[dict[str, Any]] = json.loads(run.aggregate_metrics.read_bytes())
    assert len(entries) == 1
    return entries[0]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_that_nemo_gym_has_is_there_and_equal(entry: dict[str, Any], section: str) -> None:
    theirs = dict(leaves(json.loads(EXPECTED.read_bytes())[section]))
    ours = dict(leaves(entry[section]))
    assert theirs.keys() - ours.keys() == set()
    assert len(theirs) >= 12
    for path, value in theirs.items():
        assert ours[path] == (pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float | int) else value), (
            path
        )


def test_the_rows_hold_what_makes_aggregates_differ() -> None:
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    assert any(row["mask_sample"] for row in rows)
    assert any("ng_perf" not in row for row in rows)
    assert any("usage" not in row["response"] for row in rows)
    assert any(row["reward"] not in (0.0, 1.0) for row in rows)
    assert len({row["_ng_rollout_index"] for row in rows}) > 2
