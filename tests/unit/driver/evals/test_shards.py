"""Results files as one set: what counts once, what is refused, what is left out aloud."""

import json
from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.shards import index_shards
from unit.driver.evals.artifacts import result, write_run


def shard(folder: Path, name: str, *rows: object) -> ArtifactPaths:
    return write_run(folder, rows, name=name)


def test_rows_come_in_order_of_task_and_rollout_whatever_file_they_are_in(tmp_path: Path) -> None:
    a = shard(tmp_path, "a", result(2, 1), result(0, 1))
    b = shard(tmp_path, "b", result(2, 0), result(0, 0), result(1, 0))
    assert [row.key for row in index_shards([a, b]).rows()] == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]


def test_the_bytes_of_a_row_are_kept(tmp_path: Path) -> None:
    line = b'{ "reward": 1.0,  "text": "\\ud800 \\u00e9 \xc3\xa9", "_ng_task_index": 0, "_ng_rollout_index": 0 }'
    run = ArtifactPaths(tmp_path / "a.jsonl")
    run.results.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\n")
    assert [row.line for row in index_shards([run]).rows()] == [line]


@pytest.mark.parametrize("index", [2**63, -(2**63) - 1, 10**30, 1.5, "0", None, True])
def test_a_row_of_no_rollout_is_named_with_its_line(tmp_path: Path, index: object) -> None:
    run = shard(tmp_path, "a", result(0), {**result(1), "_ng_task_index": index})
    with pytest.raises(ConfigurationError, match=r"a\.jsonl line 2: ") as refused:
        index_shards([run])
    assert refused.value.data["line"] == 2


def test_the_same_bytes_twice_count_once(tmp_path: Path) -> None:
    a = shard(tmp_path, "a", result(0), result(1))
    b = shard(tmp_path, "b", result(1), result(2))
    shards = index_shards([a, b])
    assert len(shards) == 3
    assert shards.remarks == ["1 row(s) are copies of another, byte for byte; each counts once"]


def test_copies_are_told_from_rows_of_the_same_length_wherever_they_are(tmp_path: Path) -> None:
    rows = [result(number, note=f"{number:03}") for number in range(6)]
    a = shard(tmp_path, "a", *rows[:4], rows[0])
    b = shard(tmp_path, "b", rows[3], result(1, note="xyz"), rows[5], rows[2])
    c = shard(tmp_path, "c", rows[5], result(1, note="xyz"), result(0, note="000", more=1))
    shards = index_shards([a, b, c], "last")
    assert shards.remarks == [
        "5 row(s) are copies of another, byte for byte; each counts once",
        "2 rollout(s) have rows that differ; the last one counts "
        f"(task 1 rollout 0: {a.results} line 2 and {b.results} line 2; "
        f"task 0 rollout 0: {a.results} line 1 and {c.results} line 3)",
    ]
    assert [row.payload.value("note") for row in shards.rows()] == ["000", "xyz", "002", "003", "005"]


def test_rows_of_one_rollout_that_differ_are_refused_with_their_places(tmp_path: Path) -> None:
    a = shard(tmp_path, "a", result(0), result(1, reward=0.0))
    b = shard(tmp_path, "b", result(1, reward=1.0))
    with pytest.raises(ConfigurationError) as refused:
        index_shards([a, b])
    assert "task 1 rollout 0" in refused.value.message
    assert f"{a.results} line 2" in refused.value.message
    assert f"{b.results} line 1" in refused.value.message
    assert "--on-duplicate" in refused.value.message


@pytest.mark.parametrize(("rule", "reward"), [("first", 0.0), ("last", 1.0)])
def test_a_rule_chooses_and_says_so(tmp_path: Path, rule: str, reward: float) -> None:
    a = shard(tmp_path, "a", result(1, reward=0.0))
    b = shard(tmp_path, "b", result(1, reward=1.0))
    shards = index_shards([a, b], rule)  # type: ignore[arg-type]  # parametrized with the literal's values
    assert [row.facts.reward for row in shards.rows()] == [reward]
    assert f"the {rule} one counts" in shards.remarks[0]


def test_a_bad_line_is_refused_with_file_and_line(tmp_path: Path) -> None:
    run = shard(tmp_path, "a", result(0), result(1))
    run.results.write_bytes(run.results.read_bytes() + b'{"x":\n')
    with pytest.raises(ConfigurationError, match="line 3"):
        index_shards([run])


def test_a_reward_that_is_no_number_is_refused_with_file_and_line(tmp_path: Path) -> None:
    run = shard(tmp_path, "a", result(0), result(1, reward="1.0"))
    with pytest.raises(ConfigurationError, match=r"line 2: the reward is no finite number"):
        list(index_shards([run]).rows())


@pytest.mark.parametrize(
    ("tail", "rows", "remarks"),
    [(json.dumps(result(1)), 2, 0), ('{"reward": 1, "_ng_ta', 1, 1), ("{}garbage", 1, 1)],
    ids=["whole", "torn", "torn-oddly"],
)
def test_a_last_line_without_its_end_counts_only_when_it_is_whole(
    tmp_path: Path, tail: str, rows: int, remarks: int
) -> None:
    run = shard(tmp_path, "a", result(0))
    run.results.write_text(run.results.read_text() + tail)
    shards = index_shards([run])
    assert (len(shards), len(shards.remarks)) == (rows, remarks)
