"""The manifest: replaced in one step, read back, refused where it is another run's or no manifest."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ArtifactError, ConfigurationError
from rollgym.driver.artifacts.manifest import Manifest, RolloutCounts, digest_of
from unit.driver.configs import config


def manifest(folder: Path, **settings: Any) -> Manifest:
    found = config(folder, **settings).result_settings()
    return Manifest(
        run_id="r", started_at=1.0, input_file="tasks.jsonl", input_digest="d", settings=found,
        settings_digest=digest_of(found), owed=3, counts=RolloutCounts(succeeded=1, failed=1, missing=1),
    )  # fmt: skip


def test_it_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    written = manifest(tmp_path, limit=3, responses_create_params={"temperature": 0.5})
    written.write(path)
    assert Manifest.read(path) == written
    assert [each.name for each in tmp_path.iterdir()] == ["m.json"]


def test_counts_sum_to_what_is_owed() -> None:
    assert RolloutCounts(succeeded=1, masked=2, failed=3, drained=4, cancelled=5, missing=6).owed == 21


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"limit": 5}, "limit: was None, now 5"),
        ({"num_repeats": 2}, "num_repeats: was 1, now 2"),
        ({"max_steps": 7}, "max_steps"),
        ({"policy": {"skill": "novice"}}, "policy"),
        ({"responses_create_params": {"temperature": 1.0}}, "responses_create_params"),
        ({"agent_name": "other"}, "agent_name"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_change_results_make_it_another_run(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot resume, this is another run") as refused:
        manifest(tmp_path).refuse_other_run(config(tmp_path, **changed), "d")
    assert said in refused.value.message


@pytest.mark.parametrize(
    "changed",
    [
        {"num_samples_in_parallel": 7}, {"rollout_timeout_s": 5}, {"max_rollout_attempts": 9}, {"head_url": "http://x"},
        {"driver_gc_freeze": False}, {"policy": {"api_key": "k"}}, {"token": "t"}, {"dispatch_budget_s": 1},
    ],
    ids=lambda value: next(iter(value)),
)  # fmt: skip
def test_settings_that_do_not_change_results_may_differ(tmp_path: Path, changed: dict[str, Any]) -> None:
    manifest(tmp_path).refuse_other_run(config(tmp_path, **changed), "d")


def test_a_changed_task_file_is_another_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tasks.jsonl has changed"):
        manifest(tmp_path).refuse_other_run(config(tmp_path), "another digest")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "nothing to resume"),
        (b"", "is no manifest"),
        (b"{", "is no manifest"),
        (b"[]", "is no manifest"),
        (b"{}", "schema version None"),
        (b'{"schema_version": 99}', "schema version 99; this version of gym reads 1"),
        (b'{"schema_version": 1, "run_id": "r"}', "is no manifest"),
    ],
    ids=["missing", "empty", "torn", "a-list", "no-version", "of-tomorrow", "half"],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "m.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        Manifest.read(path)


def test_a_manifest_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    written = manifest(tmp_path)
    written.write(path)
    path.with_name("m.json.writing").mkdir()
    with pytest.raises(ArtifactError, match="cannot write"):
        written.model_copy(update={"owed": 99}).write(path)
    assert json.loads(path.read_bytes())["owed"] == 3
