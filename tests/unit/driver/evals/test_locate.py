"""Which runs a folder or a pattern stands for, and what is said where it stands for none, or a folder for several."""

from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.locate import find_results, run_at
from unit.driver.evals.artifacts import failure, result, write_run


def finished(folder: Path, name: str = "run") -> ArtifactPaths:
    run = write_run(folder, [result(0)], name=name)
    run.manifest.write_text("{}")
    return run


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        run_at(path)
    return refused.value.message


def test_a_folder_of_one_run_stands_for_it(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert run_at(tmp_path) == run


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"there is no results file in {tmp_path}"


def test_a_folder_with_companions_only_has_no_results_file(tmp_path: Path) -> None:
    write_run(tmp_path, failures=[failure(0)]).results.unlink()
    assert refusal(tmp_path) == f"there is no results file in {tmp_path}"


def test_a_folder_of_folders_names_up_to_three_results_files(tmp_path: Path) -> None:
    runs = [str(finished(tmp_path / name).results) for name in ("a", "b", "c", "d")]
    said = f"there is no results file in {tmp_path}; in its folders there are: {', '.join(runs[:3])}, …"
    assert refusal(tmp_path) == said


def test_a_folder_of_several_runs_names_them(tmp_path: Path) -> None:
    first, second = finished(tmp_path, "a").results, finished(tmp_path, "b").results
    assert refusal(tmp_path).endswith(f"holds 2 runs; name the results file of one of them: {first}, {second}")


def test_results_without_a_manifest_are_to_be_named(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0)])
    assert refusal(tmp_path).endswith(f"holds no run's manifest; name the results file itself: {run.results}")


def test_a_pattern_finds_results_and_passes_over_their_companions(tmp_path: Path) -> None:
    run = write_run(tmp_path, [result(0)], name="a", inputs=[], samples=[])
    assert find_results([str(tmp_path / "*.jsonl"), str(run.results)]) == [run]


@pytest.mark.parametrize(("pattern", "why"), [("no*.jsonl", "no file matches"), ("*_journal.jsonl", "companions")])
def test_a_pattern_without_results_is_refused(tmp_path: Path, pattern: str, why: str) -> None:
    write_run(tmp_path, [result(0)])
    with pytest.raises(ConfigurationError, match=why):
        find_results([str(tmp_path / pattern)])


def test_a_folder_among_the_patterns_stands_for_its_run(tmp_path: Path) -> None:
    runs = [finished(tmp_path / "a"), finished(tmp_path / "b")]
    assert find_results([str(tmp_path / "a"), str(tmp_path / "*" / "run.jsonl")]) == runs


def test_a_folder_without_a_run_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"there is no results file in {tmp_path}"):
        find_results([str(tmp_path)])
