"""The words of `gym eval aggregate`, `profile`, `compare` and `report`, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollgym.driver.cli import main
from unit.driver.evals.artifacts import event, failure, owed, result, write_run


def gym(*words: object) -> int:
    try:
        return main([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    assert gym("eval", *words, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [result(task, rollout, float(task == rollout)) for task in range(3) for rollout in range(2)]
    inputs = [owed(task, rollout) for task in range(3) for rollout in range(2)]
    return write_run(tmp_path, rows, inputs=inputs, journal=[event("started", 1.0)]).results


def test_aggregate_merges_and_writes_metrics(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "aggregate", "--input", run, "--output", tmp_path / "all.jsonl")
    assert found["coverage"]["scored"] == 6
    assert found["agents"][0]["best_of_k"][1] == {"k": 2, "tasks": 3, "value": pytest.approx(2 / 3)}
    assert json.loads(Path(found["aggregate_metrics"]).read_bytes())[0]["reward"]["mean"] == pytest.approx(1 / 3)


def test_aggregate_of_one_run_makes_its_own_metrics_anew(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gym("eval", "aggregate", "--input", run) == 0
    assert "run_aggregate_metrics.json" in capsys.readouterr().out
    assert run.with_name("run_aggregate_metrics.json").exists()


@pytest.mark.parametrize(
    ("flags", "heading"),
    [
        ((), "Reward, over scored rollouts\n"),
        (("--count-failure-classes-as-zero", "env_busy"), "Reward, over scored rollouts and those counted as 0\n"),
        (("--count-failure-classes-as-zero", "env_lost"), "Reward, over scored rollouts\n"),
    ],
    ids=["scored-only", "some-counted-as-zero", "none-of-that-class"],
)
def test_the_heading_says_which_rollouts_the_reward_is_over(
    tmp_path: Path, flags: tuple[str, ...], heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, [result(0)], inputs=[owed(0), owed(1)], failures=[failure(1, failure_class="env_busy")])
    assert gym("eval", "aggregate", "--input", run.results, *flags) == 0
    assert heading in "".join(line.rstrip() + "\n" for line in capsys.readouterr().out.splitlines())


def test_profile_takes_a_file_or_the_folder_of_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_file = printed(capsys, "profile", run)
    run.with_name("run_manifest.json").write_text("{}")
    assert printed(capsys, "profile", run.parent) == by_file
    assert by_file["hardest"] == [2, 0, 1]


def test_compare_prints_the_verdict_first(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gym("eval", "compare", run, run) == 0
    assert capsys.readouterr().out.strip().startswith("B - A: +0.0000 reward")
    assert printed(capsys, "compare", run, run)["paired_by"] == "content"


def test_compare_names_both_runs_where_their_files_have_one_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write_run(tmp_path / name, [result(0)]).results for name in ("first", "second"))
    assert gym("eval", "compare", a, b) == 0
    shown = capsys.readouterr().out
    assert "first/run.jsonl" in shown
    assert "second/run.jsonl" in shown


def test_report_is_written_beside_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "report", run)
    assert Path(found["report"]) == run.with_name("run_report.html")
    assert "rewards" in found["plots"]


@pytest.mark.parametrize("command", ["aggregate", "profile", "compare", "report"])
def test_help_says_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gym("eval", command, "--help") == 0
    assert "usage: gym eval " + command in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("aggregate", "--input", "none*.jsonl", "--output", "x.jsonl"), "no file matches"),
        (("aggregate", "--input", "{run}", "{other}"), "need an --output"),
        (("aggregate", "--input", "{run}", "--output", "{run}"), "one of the shards"),
        (("aggregate", "--output", "x.jsonl"), "--input"),
        (("aggregate", "--input", "{run}", "--output", "{folder}", "--overwrite"), "is a folder; name a file in it"),
        (("aggregate", "--input", "{run}", "--output", "."), "is a folder; name a file in it"),
        (("profile", "nowhere.jsonl"), "no results file"),
        (("profile", "{folder}"), "holds no run's manifest; name the results file itself: "),
        (("profile", "{run}", "--top", "0"), "1 or more"),
        (("profile", "{run}", "--pass-at", "nan"), "no finite number"),
        (("compare", "{run}"), "B"),
        (("compare", "{run}", "{run}", "--metric", "rewards"), "did you mean reward?"),
        (("report", "{folder}/run_journal.jsonl"), "companion"),
        (("report", "{run}", "--output", "{folder}"), "is a folder; name a file in it"),
        (("report", "{run}", "--output", "/"), "is a folder; name a file in it"),
    ],
)
def test_usage_that_is_wrong_ends_with_2_and_one_line(
    words: tuple[str, ...], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_run(run.parent, [result(9)], name="other").results
    assert gym("eval", *(word.format(run=run, other=other, folder=run.parent) for word in words)) == 2
    heard = capsys.readouterr().err
    assert said in heard
    assert "Traceback" not in heard
