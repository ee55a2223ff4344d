"""The task file: every bad line named with its reason before anything starts; every odd but legal one taken."""

from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.tasks import survey_tasks, task_lines

GOOD = b'{"responses_create_params": {"input": "x"}}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.jsonl"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(b'{"responses_create_params": {', "is no JSON", id="broken"),
        pytest.param(GOOD + b",", "is no JSON", id="trailing-comma"),
        pytest.param(GOOD + GOOD, "is no JSON", id="two-on-a-line"),
        pytest.param(b"[1, 2]", "is no JSON object", id="array"),
        pytest.param(b'"text"', "is no JSON object", id="text"),
        pytest.param(b"null", "is no JSON object", id="null"),
        pytest.param(b'{"responses_create_params": {"input": "\xff"}}', "is not UTF-8 (byte 39)", id="not-utf-8"),
        pytest.param(b'{"input": "x"}', "has no responses_create_params", id="no-params"),
        pytest.param(b'{"responses_create_params": []}', "must be an object", id="params-a-list"),
        pytest.param(b'{"responses_create_params": null}', "must be an object", id="params-null"),
        pytest.param(b'{"responses_create_params": {}, "env": 5}', "env must be the name", id="env-a-number"),
        pytest.param(b'{"responses_create_params": {}, "reset": 5}', "reset must be an object", id="reset-a-number"),
        pytest.param(b'{"responses_create_params": {}, "agent_ref": "a"}', "agent_ref must be", id="agent-a-text"),
        pytest.param(b'{"responses_create_params": {}, "agent_ref": {}}', "agent_ref must be", id="agent-nameless"),
        pytest.param(b'{"responses_create_params": {}, "_ng_task_index": "1"}', "_ng_task_index", id="index-a-text"),
        pytest.param(
            b'{"responses_create_params": {}, "_ng_task_index": 9223372036854775808}', "64 bits", id="index-too-big"
        ),
        pytest.param(b'{"responses_create_params": ' + b"[" * 10_000, "is no JSON", id="nested-deeply"),
    ],
)
def test_a_bad_line_is_refused_with_file_line_and_reason(path: Path, line: bytes, said: str) -> None:
    path.write_bytes(GOOD + b"\n\n" + line + b"\n" + GOOD + b"\n")
    with pytest.raises(ConfigurationError) as refused:
        survey_tasks(path, None)
    assert f"{path}: line 3: " in refused.value.message
    assert said in refused.value.message


def test_every_bad_line_is_counted_and_the_first_ones_shown(path: Path) -> None:
    path.write_bytes(b"bad\n" * 25)
    with pytest.raises(ConfigurationError) as refused:
        survey_tasks(path, None)
    lines = refused.value.message.splitlines()
    assert len(lines) == 11
    assert "25 bad lines in all" in lines[-1]


def test_a_line_beyond_what_one_request_holds_is_refused_by_its_size(path: Path) -> None:
    padding = b"x" * (33 * 1024 * 1024)
    path.write_bytes(b'{"responses_create_params": {"input": "%s"}}\n' % padding)
    with pytest.raises(ConfigurationError, match=r"line 1: has 34,603,0\d\d bytes; at most 33,554,432"):
        survey_tasks(path, None)


def test_a_line_of_20_megabytes_is_taken(path: Path) -> None:
    path.write_bytes(b'{"responses_create_params": {"input": "%s"}}\n' % (b"x" * (20 * 1024 * 1024)))
    assert survey_tasks(path, None).tasks == 1


@pytest.mark.parametrize(
    ("content", "tasks"),
    [
        pytest.param(b"\xef\xbb\xbf" + GOOD + b"\n", 1, id="bom"),
        pytest.param(GOOD + b"\r\n" + GOOD + b"\r\n", 2, id="crlf"),
        pytest.param(GOOD + b"\n" + GOOD, 2, id="no-newline-at-the-end"),
        pytest.param(b"\n \n" + GOOD + b"\n\t\n", 1, id="blank-lines"),
        pytest.param('{"responses_create_params": {"input": "a\u2028b\u0085c"}}\n'.encode(), 1, id="u2028-inside"),
        pytest.param(rb'{"responses_create_params": {"input": "\ud800"}}' + b"\n", 1, id="lone-surrogate"),
        pytest.param(b'{"responses_create_params": {}, "env": null, "agent_ref": null}', 1, id="null-names"),
        pytest.param(b'{"responses_create_params": {}, "seed": "any"}', 1, id="an-agents-own-seed"),
    ],
)
def test_odd_but_legal_files_are_taken(path: Path, content: bytes, tasks: int) -> None:
    path.write_bytes(content)
    assert survey_tasks(path, None).tasks == tasks
    assert len(list(task_lines(path, None))) == tasks


@pytest.mark.parametrize("content", [b"", b"\n\n", b"  \n"], ids=["empty", "blank-lines", "spaces"])
def test_a_file_without_a_task_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="holds no task line"):
        survey_tasks(path, None)


def test_a_limit_reads_that_many_and_zero_is_none(path: Path) -> None:
    path.write_bytes(GOOD + b"\n" + GOOD + b"\nbad\n")
    assert survey_tasks(path, 2).tasks == 2
    assert survey_tasks(path, 0).tasks == 0
    assert list(task_lines(path, 0)) == []


@pytest.mark.parametrize("limit", [None, 0], ids=["all", "none"])
def test_a_missing_file_is_named(path: Path, limit: int | None) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*tasks.jsonl: No such file"):
        survey_tasks(path, limit)


def test_a_folder_is_no_task_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        survey_tasks(tmp_path, None)


def test_the_survey_knows_which_names_are_used_together(path: Path) -> None:
    path.write_bytes(
        b'{"responses_create_params": {}, "env": "a"}\n'
        b'{"responses_create_params": {}, "env": "b", "agent_ref": {"name": "x"}}\n'
        b'{"responses_create_params": {}, "env": "a"}\n'
        b'{"responses_create_params": {}, "seed": 1.5, "agent_ref": {"name": "y"}}\n'
    )
    survey = survey_tasks(path, None)
    assert survey.names == {(None, "a"): 1, ("x", "b"): 2, ("y", None): 4}
    assert survey.unplayable == {"y": (4, "seed must be an integer")}


def test_own_task_indices_are_given_to_all_or_to_none(path: Path) -> None:
    path.write_bytes(GOOD + b'\n{"responses_create_params": {}, "_ng_task_index": 3}\n')
    with pytest.raises(ConfigurationError, match=r"line 2 has _ng_task_index and line 1 has none"):
        survey_tasks(path, None)
