"""What a run owes: repeats, identity, overrides, order; and the file read back as it was written."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.materialized import dispatch_order, load_materialized, materialize
from unit.driver.configs import config

PLAIN = '{"responses_create_params": {"input": "x"}}'
OTHER = '{"responses_create_params": {"input": "y"}}'


def owed(folder: Path, lines: Sequence[str], **settings: Any) -> list[dict[str, Any]]:
    (folder / "tasks.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    path = folder / "materialized.jsonl"
    rows = materialize(config(folder, **settings), path)
    try:
        found = [json.loads(rows.read(position)) for position in range(len(rows))]
        assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in found] == [
            rows.key(position) for position in range(len(rows))
        ]
        assert rows.size_bytes == path.stat().st_size
    finally:
        rows.close()
    return found


def keys(rows: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]


def test_identical_lines_share_a_task_and_get_consecutive_rollouts(tmp_path: Path) -> None:
    found = keys(owed(tmp_path, [PLAIN, OTHER, PLAIN], num_repeats=2))
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]


def test_an_own_task_index_is_kept(tmp_path: Path) -> None:
    lines = [json.dumps({"responses_create_params": {}, "_ng_task_index": index}) for index in (7, 3, 7)]
    assert keys(owed(tmp_path, lines)) == [(7, 0), (3, 0), (7, 1)]


def test_rows_keep_every_field_that_they_had(tmp_path: Path) -> None:
    line = '{"responses_create_params": {"input": "é\\u2028", "n": 1e400}, "reset": {"a": [1]}, "tags": {"s": "w"}}'
    (tmp_path / "tasks.jsonl").write_text(line + "\n")
    path = tmp_path / "materialized.jsonl"
    materialize(config(tmp_path), path)
    text = path.read_text()
    assert '"n":1e400' in text.replace(" ", "")
    assert "é" in text
    assert json.loads(text)["reset"] == {"a": [1]}


def test_a_lone_surrogate_is_kept_as_its_escape(tmp_path: Path) -> None:
    (row,) = owed(tmp_path, ['{"responses_create_params": {"input": "a\\ud800b"}}'])
    assert row["responses_create_params"]["input"] == "a\ud800b"
    assert rb"\ud800" in (tmp_path / "materialized.jsonl").read_bytes()


def test_a_line_with_a_carriage_return_between_tokens_stays_one_line(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b'{"responses_create_params":\r {"input": "x"}}\n')
    materialize(config(tmp_path), tmp_path / "m.jsonl")
    assert b"\r" not in (tmp_path / "m.jsonl").read_bytes()


def test_overrides_win_over_the_rows_params_and_leave_the_rest(tmp_path: Path) -> None:
    (row,) = owed(tmp_path, [PLAIN], responses_create_params={"temperature": 0.5, "input": "z"})
    assert row["responses_create_params"] == {"input": "z", "temperature": 0.5}


def test_a_row_that_names_no_agent_or_environment_gets_the_configured_ones(tmp_path: Path) -> None:
    named = '{"responses_create_params": {}, "env": "own", "agent_ref": {"name": "mine", "type": "t"}}'
    first, second = owed(tmp_path, [PLAIN, named], agent_name="default", env="echo")
    assert (first["env"], first["agent_ref"]["name"]) == ("echo", "default")
    assert (second["env"], second["agent_ref"]) == ("own", {"name": "mine", "type": "t"})


def test_repeats_may_differ_by_agent(tmp_path: Path) -> None:
    mine = '{"responses_create_params": {}, "agent_ref": {"name": "mine"}}'
    assert keys(owed(tmp_path, [PLAIN, mine], num_repeats={"mine": 3, "_default": 1})) == [
        (0, 0), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip


def test_an_agent_without_a_number_of_repeats_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"rollgym_agent.*line 1"):
        owed(tmp_path, [PLAIN], num_repeats={"mine": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_each_repeat_has_its_own_seed_when_asked_and_keeps_what_was_there(tmp_path: Path) -> None:
    line = '{"responses_create_params": {"metadata": {"a": "b", "extra_body": "{\\"top_k\\": 1}"}}}'
    rows = owed(tmp_path, [line], num_repeats=2, num_repeats_add_seed=True)
    metadata = [row["responses_create_params"]["metadata"] for row in rows]
    assert [json.loads(each["extra_body"]) for each in metadata] == [{"top_k": 1, "seed": 0}, {"top_k": 1, "seed": 1}]
    assert {each["a"] for each in metadata} == {"b"}


@pytest.mark.parametrize(("interleave", "expected"), [(False, [0, 1, 2, 3]), (True, [0, 2, 1, 3])])
def test_dispatch_goes_by_task_or_by_repeat(tmp_path: Path, interleave: bool, expected: list[int]) -> None:
    (tmp_path / "tasks.jsonl").write_text(PLAIN + "\n" + OTHER + "\n")
    rows = materialize(config(tmp_path, num_repeats=2), tmp_path / "m.jsonl")
    assert list(dispatch_order(rows, interleave=interleave)) == expected


def test_the_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(PLAIN + "\n" + '{"responses_create_params": {"input": "\\udfff"}}' + "\n")
    path = tmp_path / "m.jsonl"
    rows = materialize(config(tmp_path, num_repeats=2), path)
    again = load_materialized(path, size_bytes=rows.size_bytes, owed=4)
    assert [again.read(at) for at in range(4)] == [rows.read(at) for at in range(4)]
    assert again.positions() == {rows.key(at): at for at in range(4)}
    assert [again.labels_of(at) for at in range(4)] == [rows.labels_of(at) for at in range(4)]
    rows.close()
    again.close()


@pytest.mark.parametrize(
    ("size", "owed_rows", "said"),
    [(1, 1, "bytes, the manifest says 1"), (None, 9, "holds 1 rows, the manifest says 9")],
)
def test_another_file_in_its_place_is_refused(tmp_path: Path, size: int | None, owed_rows: int, said: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "a"}}\n')
    with pytest.raises(ConfigurationError, match=said):
        load_materialized(path, size_bytes=path.stat().st_size if size is None else size, owed=owed_rows)


def test_a_missing_file_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing to resume"):
        load_materialized(tmp_path / "gone", size_bytes=1, owed=1)


@pytest.mark.parametrize(
    ("metadata", "seeded"),
    [("null", '{"seed":0}'), ('{"extra_body": "{\\"top_k\\": 5}"}', '{"top_k":5,"seed":0}'), ("{}", '{"seed":0}')],
    ids=["null", "with-others", "empty"],
)
def test_a_repeats_seed_goes_beside_what_is_there(tmp_path: Path, metadata: str, seeded: str) -> None:
    line = f'{{"responses_create_params": {{"input": [], "metadata": {metadata}}}}}\n'
    (tmp_path / "tasks.jsonl").write_text(line)
    rows = materialize(config(tmp_path, num_repeats_add_seed=True), tmp_path / "m.jsonl")
    params = json.loads(rows.read(0))["responses_create_params"]
    rows.close()
    assert params["metadata"]["extra_body"] == seeded


@pytest.mark.parametrize("metadata", ['{"extra_body": "no json"}', '{"extra_body": "[]"}', "[1]", '{"extra_body": 5}'])
def test_metadata_that_can_hold_no_seed_is_refused_with_its_line(tmp_path: Path, metadata: str) -> None:
    line = f'{{"responses_create_params": {{"input": [], "metadata": {metadata}}}}}\n'
    (tmp_path / "tasks.jsonl").write_text(line)
    with pytest.raises(ConfigurationError, match="line 1: takes no seed"):
        materialize(config(tmp_path, num_repeats_add_seed=True), tmp_path / "m.jsonl")
