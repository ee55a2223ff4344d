"""`gym simulate capacity` end to end, at a size that takes seconds: all processes real, all of its outputs whole."""

import contextlib
import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from rollgym.driver.cli import main

pytestmark = pytest.mark.timeout(240)  # a dozen processes start, which takes its time on a busy machine

SMALL = (
    *("--tasks", "4", "--repeats", "5", "--concurrency", "8", "--messages", "4", "--characters", "100"),
    *("--latency", "uniform:0:0.02", "--rounds", "1"),
)


@dataclass(frozen=True)
class Ended:
    """A simulation that ended."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "capacity.json").read_text())
        return document

    def artifacts(self, run: str, name: str) -> Path:
        return self.folder / "runs" / run / name


def _simulate(folder: Path, *flags: str) -> Ended:
    """The command in this process: what it starts are processes all the same."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["simulate", "capacity", *SMALL, "--out", str(folder), *flags])
    return Ended(code, out.getvalue(), err.getvalue(), folder)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """All variants and the built-in agent, with so many failures that some rollouts fail for good."""
    return _simulate(
        tmp_path_factory.mktemp("failing"),
        *("--fail-rate", "0.4", "--attempts", "2", "--seed", "3", "--keep"),
        *("--built-in-rollouts", "4", "--turns", "3", "++retry_backoff_s=0.01"),
    )


def _keys(path: Path) -> list[tuple[int, int]]:
    rows = map(json.loads, path.read_text().splitlines())
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]


def test_every_variant_and_the_built_in_agent_have_their_rows(failing: Ended) -> None:
    assert failing.code == 0, failing.err
    rows = [line.split("|")[1].strip() for line in failing.out.splitlines() if line.startswith("|")]
    assert [row for row in rows if row != "run" and not row.startswith("--")] == [
        *("default 1", "tuned 1", "off 1"),
        "built-in agent, 8 in flight",
    ]


def test_the_json_has_what_was_seen_of_each_run(failing: Ended) -> None:
    document = failing.document
    runs = {run["name"]: run for run in document["runs"]}
    assert set(runs) == {"default", "tuned", "off"}
    assert runs["tuned"]["gc_frozen_objects"] > 0
    assert runs["default"]["gc_frozen_objects"] == runs["off"]["gc_frozen_objects"] == 0
    assert runs["default"]["gc_thresholds"] == runs["off"]["gc_thresholds"]
    for run in runs.values():
        assert run["rollouts"] == 20
        assert run["peak_in_flight"] <= 8
        assert run["lag_over_time"]
        assert run["cpu_ms_per_rollout"] > 0
    assert document["built_in_agent"]["model_calls"] == 12
    assert document["settings"]["seed"] == 3


def test_the_picture_shows_each_variant(failing: Ended) -> None:
    texts = "".join(ET.parse(failing.folder / "capacity.svg").getroot().itertext())
    for name in ("default", "tuned", "off"):
        assert name in texts


@pytest.mark.parametrize("variant", ["default", "tuned", "off"])
def test_exit_code_files_and_counts_agree_where_attempts_fail(failing: Ended, variant: str) -> None:
    folder = f"{variant}-1"
    succeeded = _keys(failing.artifacts(folder, "rollouts.jsonl"))
    attempts = Counter(_keys(failing.artifacts(folder, "rollouts_failures.jsonl")))
    manifest = json.loads(failing.artifacts(folder, "rollouts_manifest.json").read_text())
    for_good = {key for key, count in attempts.items() if count == 2}
    assert for_good, "the seed makes some rollouts fail for good"
    assert attempts.keys() - for_good, "and some only once"
    assert len(succeeded) == len(set(succeeded)) == 20 - len(for_good)
    assert not for_good & set(succeeded)
    assert manifest["counts"]["succeeded"] == len(succeeded)
    assert manifest["counts"]["failed"] == len(for_good)
    (run,) = [run for run in failing.document["runs"] if run["name"] == variant]
    assert run["disagreements"] == []


def test_retained_results_and_replicas_of_agents(tmp_path: Path) -> None:
    ended = _simulate(
        tmp_path, "--retain", "--agents", "2", "--variants", "tuned", "--json", "++max_resident_rollout_tasks=2"
    )
    assert ended.code == 0, ended.err
    (run,) = json.loads(ended.out)["runs"]
    assert run["peak_in_flight"] <= 2, "settings of the driver reach it"
    assert run["disagreements"] == []
    assert not (tmp_path / "runs").exists(), "artifacts are not kept unless asked for"


def test_a_ceiling_is_looked_for_up_to_the_concurrency(tmp_path: Path) -> None:
    ended = _simulate(tmp_path, "--ceiling", "--ceiling-from", "8")
    assert ended.code == 0, ended.err
    assert "Not reached: throughput still grew at the last step" in ended.out
    assert [run["concurrency"] for run in ended.document["runs"]] == [8]


def test_a_driver_that_refuses_its_settings_is_told(tmp_path: Path) -> None:
    """What only the driver can find out."""
    ended = _simulate(tmp_path, "--variants", "tuned", "++policy.kind=no_such_module:Policy")
    assert ended.code == 1
    assert "no_such_module" in ended.err
    assert "Traceback" not in ended.err


def test_settings_that_the_driver_does_not_have_are_refused_before_anything_starts(tmp_path: Path) -> None:
    ended = _simulate(tmp_path, "--variants", "tuned", "++no_such_setting=1")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("gym: unknown setting 'no_such_setting'")
