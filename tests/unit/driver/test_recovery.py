"""What an earlier start left: done, failed, torn, bad, double; each said, none counted twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.artifacts.recovery import Recovered, recover
from rollgym.driver.materialized import Key, MaterializedRows, RowLabels
from rollgym.driver.rollout_facts import RolloutFacts


def row(task: int, reward: Any = 1.0, **fields: Any) -> str:
    return json.dumps({"_ng_task_index": task, "_ng_rollout_index": 0, "reward": reward, **fields}) + "\n"


def failure(task: int, **fields: Any) -> str:
    line = {"_ng_task_index": task, "_ng_rollout_index": 0, "_ng_failure_class": "env_busy", **fields}
    return json.dumps(line) + "\n"


LABELS = RowLabels("rollgym_agent", b'{"name":"rollgym_agent"}', None)


class Start:
    """A folder with what an earlier start left of a run of ten tasks."""

    def __init__(self, folder: Path) -> None:
        self.paths = ArtifactPaths(folder / "rows.jsonl")
        self.rows = MaterializedRows(self.paths.materialized_inputs)
        for task in range(10):
            self.rows.add(task, (task, 0), LABELS)
        self.done: dict[Key, RolloutFacts] = {}

    def recover(self, results: str | bytes = b"", failures: str | bytes = b"", *, repair: bool = False) -> Recovered:
        for path, content in ((self.paths.results, results), (self.paths.failures, failures)):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

        def on_row(position: int, key: Key, facts: RolloutFacts) -> None:
            assert key not in self.done
            assert self.rows.key(position) == key
            self.done[key] = facts

        return recover(self.paths, self.rows, on_row, repair=repair)

    @property
    def aside(self) -> str:
        path = self.paths.results.with_name("rows.jsonl.bad")
        return path.read_text() if path.exists() else ""


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def test_rows_are_done_and_blank_lines_are_nothing(start: Start) -> None:
    found = start.recover(row(0) + "\n" + row(1, 0.0, mask_sample=True) + "  \n")
    assert set(start.done) == {(0, 0), (1, 0)}
    assert start.done[1, 0].masked
    assert found.remarks == []


def test_a_torn_last_line_is_set_aside_and_said(start: Start) -> None:
    found = start.recover(row(0) + row(1)[:-5], failure(2)[:-9])
    assert set(start.done) == {(0, 0)}
    assert ["torn last line" in remark for remark in found.remarks] == [True, True]
    assert start.paths.results.read_text() == row(0)


@pytest.mark.parametrize(
    "bad",
    [
        '{"x":\n',
        "[1]\n",
        '{"_ng_task_index": 5}\n',
        '{"_ng_task_index": "5", "_ng_rollout_index": 0}\n',
        row(5, "high"),
        row(5, None),
        '{"_ng_task_index": 5, "_ng_rollout_index": 0, "reward": NaN}\n',
        '{"_ng_task_index": 5, "_ng_rollout_index": 0, "x": ' + "[" * 5000 + "\n",
    ],
    ids=["torn-in-the-middle", "array", "no-rollout", "index-a-text", "reward-a-text", "no-reward", "nan", "deep"],
)
def test_a_bad_line_in_the_middle_is_refused_or_set_aside_when_asked(start: Start, bad: str) -> None:
    content = row(0) + row(1) + bad + row(2)
    with pytest.raises(ConfigurationError, match=r"rows.jsonl line 3 is bad .*repair=true") as refused:
        start.recover(content)
    assert refused.value.data["line"] == 3
    assert start.paths.results.read_text() == content
    start.done.clear()
    found = start.recover(content, repair=True)
    assert set(start.done) == {(0, 0), (1, 0), (2, 0)}
    assert start.paths.results.read_text() == row(0) + row(1) + row(2)
    assert start.aside == bad
    assert "1 bad line(s)" in found.remarks[0]


def test_bytes_that_are_no_text_are_a_bad_line(start: Start) -> None:
    content = row(0).encode() + b'{"_ng_task_index": 5, "_ng_rollout_index": 0, "reward": 1, "a": "\xff"}\n'
    with pytest.raises(ConfigurationError, match="line 2 is bad"):
        start.recover(content)


def test_a_second_row_of_a_rollout_is_set_aside_and_counts_once(start: Start) -> None:
    found = start.recover(row(0, 1.0) + row(1) + row(0, 0.0) + row(1))
    assert start.done[0, 0].reward == 1.0
    assert start.paths.results.read_text() == row(0, 1.0) + row(1)
    assert "2 row(s) of a rollout that has one" in found.remarks[0]


def test_rows_and_failures_that_nobody_owes_are_said_and_not_counted(start: Start) -> None:
    found = start.recover(row(0) + row(77), failure(88))
    assert set(start.done) == {(0, 0)}
    assert not found.failures
    assert any("1 row(s) of a rollout that is not owed" in remark for remark in found.remarks)
    assert any("failures.jsonl: 1 line(s) of a rollout that is not owed" in remark for remark in found.remarks)


def test_failed_attempts_are_counted_with_the_last_ones_class(start: Start) -> None:
    lines = failure(3, _rollgym_latency_s=5.0) + failure(
        3, _ng_failure_class="env_lost", _ng_failure_terminal=True, _rollgym_latency_s=2.0
    )
    history = start.recover("", lines).failures[3]
    assert (history.attempts, history.last_class, history.terminal, history.longest_s) == (2, "env_lost", True, 5.0)


@pytest.mark.parametrize("message", ["\ud800", "a\u2028b", "\x00", "é" * 2000], ids=ascii)
def test_an_attempt_counts_whatever_its_message_holds(start: Start, message: str) -> None:
    assert start.recover("", failure(3, error_message=message[:50])).failures[3].attempts == 1


def test_an_unreadable_failure_is_said(start: Start) -> None:
    found = start.recover("", failure(3) + "garbage\n")
    assert found.failures[3].attempts == 1
    assert found.remarks == ["rows_failures.jsonl: 1 line(s) cannot be read; their attempts are not counted"]


def test_a_first_start_left_nothing(tmp_path: Path) -> None:
    start = Start(tmp_path)
    found = recover(start.paths, start.rows, lambda *_: pytest.fail("no row is there"), repair=False)
    assert (found.failures, found.remarks) == ({}, [])
