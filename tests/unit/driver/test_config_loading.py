"""From files, overrides and flags to one configuration; every mistake in one line that says what to correct."""

import re
from pathlib import Path
from typing import Any

import pytest

from needs import ROOT
from rollgym.common.errors import ConfigurationError
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.config_loading import load_config, validated

FILES = {"input_jsonl_fpath": "in.jsonl", "output_jsonl_fpath": "out.jsonl"}


def load(*overrides: str, file: Path | None = None, **flags: Any) -> RolloutCollectionConfig:
    return load_config(file, overrides, {**FILES, **flags})


def written(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("override", "name", "value"),
    [
        ("limit=5", "limit", 5),
        ("++limit=0", "limit", 0),
        ("+limit=7", "limit", 7),
        ("driver_gc_freeze=false", "driver_gc_freeze", False),
        ("++driver_gc_thresholds=null", "driver_gc_thresholds", None),
        ("++driver_gc_thresholds=[700,10]", "driver_gc_thresholds", (700, 10)),
        ("num_repeats={a: 2, _default: 1}", "num_repeats", {"a": 2, "_default": 1}),
        ("capture_payloads=true", "capture_payloads", True),
        ("rollout_timeout_s=null", "rollout_timeout_s", None),
    ],
)
def test_an_override_sets_what_it_names(override: str, name: str, value: Any) -> None:
    assert getattr(load(override), name) == value


def test_later_sources_win_file_then_overrides_then_flags(tmp_path: Path) -> None:
    file = written(tmp_path, "limit: 1\nmax_steps: 2\nnum_samples_in_parallel: 3\npolicy:\n  skill: novice\n")
    found = load("limit=10", "max_steps=20", file=file, limit=100)
    assert (found.limit, found.max_steps, found.num_samples_in_parallel, found.policy.skill) == (100, 20, 3, "novice")


def test_a_flag_reaches_into_a_section_that_a_file_has_begun(tmp_path: Path) -> None:
    file = written(tmp_path, "policy:\n  skill: novice\n")
    found = load(file=file, **{"policy.model": "m"})
    assert (found.policy.skill, found.policy.model) == ("novice", "m")


@pytest.mark.parametrize(
    ("overrides", "text", "expected"),
    [
        ((), "{}", "of-the-shell"),
        ((), "token: of-the-file", "of-the-file"),
        (("++token=of-the-override",), "{}", "of-the-override"),
        (("++token=null",), "{}", None),
    ],
    ids=["nothing-configured", "in-the-file", "overridden", "turned-off"],
)
def test_what_the_shell_holds_fills_only_what_is_not_configured(
    tmp_path: Path, overrides: tuple[str, ...], text: str, expected: str | None
) -> None:
    shell = {"token": "of-the-shell", "policy.api_key": "k"}
    found = load_config(written(tmp_path, text), overrides, FILES, shell)
    assert (found.token and found.token.get_secret_value()) == expected
    assert found.policy.api_key is not None


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("++num_repeat=2", "did you mean num_repeats?"),
        ("driver_gc_freze=false", "did you mean driver_gc_freeze?"),
        ("policy.modle=x", "did you mean policy.model?"),
        ("++serve.env_bundel=false", "did you mean serve.env_bundle?"),
        ("++zzz=1", "unknown setting 'zzz'"),
        ("limit", "has no value"),
        ("=5", "is no override"),
        ("limit=[", "cannot be composed"),
        ("~nothing", "cannot be composed"),
    ],
)
def test_a_mistake_is_said_with_the_field_and_what_is_allowed(override: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(override)
    assert said in refused.value.message
    assert len(refused.value.message.splitlines()) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"limit": -1}, "limit: "),
        ({"limit": "many"}, "limit: "),
        ({"limit": 1.5}, "limit: "),
        ({"num_repeats": 0}, "use limit=0 to run nothing"),
        ({"num_repeats": {"a": 0}}, "1 or more for a"),
        ({"num_samples_in_parallel": 0}, "num_samples_in_parallel"),
        ({"num_samples_in_parallel": 4097}, "4096"),
        ({"num_samples_in_parallel": None}, "num_samples_in_parallel"),
        ({"driver_gc_thresholds": [0, 50, 100]}, "driver_gc_thresholds: each threshold must be 1 or more"),
        ({"driver_gc_thresholds": []}, "driver_gc_thresholds: takes 1 to 3 numbers"),
        ({"driver_gc_thresholds": [1, 2, 3, 4]}, "driver_gc_thresholds: takes 1 to 3 numbers"),
        ({"driver_gc_thresholds": [2**31]}, "driver_gc_thresholds: each threshold must be 2147483647 or less"),
        ({"driver_gc_thresholds": [True]}, "driver_gc_thresholds: takes 1 to 3 whole numbers"),
        ({"max_resident_rollout_tasks": True}, "max_resident_rollout_tasks: takes a number, not true"),
        ({"num_repeats": False}, "num_repeats: takes a number, not false"),
        ({"retry_backoff_s": True}, "retry_backoff_s: takes a number, not true"),
        ({"policy": {"max_retries": True}}, "policy.max_retries: takes a number, not true"),
        ({"driver_gc_thresholds": "often"}, "driver_gc_thresholds: takes 1 to 3 whole numbers"),
        ({"policy": {"kind": "openai"}}, "openai-chat"),
        ({"policy": {"kind": "openai-chat"}}, "base_url"),
        ({"retry_failed": True}, "goes with resume_from_cache"),
        ({"head_url": "ftp://x"}, "head_url: takes a URL that begins with http:// or https:// (got 'ftp://x')"),
        ({"count_failure_classes_as_zero": 7}, "takes a list, for example [a, b] (got 7)"),
        ({"serve": {"resources_args": "--x"}}, "serve.resources_args: takes a list, for example [a, b] (got '--x')"),
        ({"responses_create_params": [1]}, "responses_create_params: takes a mapping of name to value (got [1])"),
        ({"policy": "scripted"}, "policy: takes a mapping of name to value (got 'scripted')"),
        ({"serve": {"env_bundle": False}}, "at least one of envs"),
        ({"output_jsonl_fpath": "in.jsonl"}, "must not be the task file"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_said_with_the_field_and_what_is_allowed(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        validated(FILES | settings)
    assert said in refused.value.message
    assert len(refused.value.message.splitlines()) == 1


def test_every_mistake_is_said_in_a_line_of_its_own() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load("limit=-1", "num_repeats=0", "max_steps=0")
    assert len(refused.value.message.splitlines()) == 3


def test_a_missing_file_setting_names_its_flag() -> None:
    with pytest.raises(ConfigurationError, match=r"--input FILE(.|\n)*--output FILE"):
        load_config(None, (), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limit: [", "is no YAML"),
        ("- a\n- b", "must be a mapping"),
        ("limits: 5", "did you mean limit?"),
        ("policy: scripted", "policy: "),
        ("policy:\n  modle: x", "did you mean model?"),
        ("limit: ${nowhere}", "cannot be composed"),
    ],
)
def test_a_wrong_file_is_said_as_well(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(file=written(tmp_path, text))
    assert said in refused.value.message


def test_a_flag_into_a_section_that_is_none_is_refused_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="policy"):
        load(file=written(tmp_path, "policy: scripted"), **{"policy.model": "m"})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml"):
        load(file=tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("override", ["++token=[S3NT1NEL]", "++policy.api_key=[S3NT1NEL]"])
def test_a_wrong_secret_is_not_shown(override: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(override)
    assert "S3NT1NEL" not in refused.value.message


def test_the_settings_that_go_to_the_manifest_hold_no_secret() -> None:
    found = load(
        "++token=S3NT1NEL",
        "++policy.api_key=S3NT1NEL",
        "++policy.base_url=http://user:S3NT1NEL@host/v1",
        "++policy.kind=my.module:Own",
        "++policy.options={api_key: S3NT1NEL, headers: {Authorization: S3NT1NEL}, size: 5}",
        "++responses_create_params={max_output_tokens: 100, metadata: {password: S3NT1NEL}}",
    ).result_settings()
    assert "S3NT1NEL" not in repr(found)
    assert found["responses_create_params"]["max_output_tokens"] == 100
    assert found["policy"]["options"]["size"] == 5


def test_concurrency_is_bounded_by_the_resident_tasks() -> None:
    assert load("num_samples_in_parallel=64", "max_resident_rollout_tasks=10").workers == 10
    assert load("num_samples_in_parallel=64").workers == 64


def test_flags_of_servers_may_hold_numbers() -> None:
    assert load("++serve.resources_args=[--patience,5,--x,1.5]").serve.resources_args == [
        "--patience",
        "5",
        "--x",
        "1.5",
    ]


CONTAINER_EVAL = ROOT / "deploy" / "container" / "eval.yaml"
CONTAINER_VARIABLES = sorted(set(re.findall(r"ROLLGYM_[A-Z_]+", CONTAINER_EVAL.read_text("utf-8"))))


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CONTAINER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    overrides = ("output_jsonl_fpath=out.jsonl",)  # whose default is the time
    unset = load_config(CONTAINER_EVAL, overrides, {})
    for name in CONTAINER_VARIABLES:
        monkeypatch.setenv(name, "")
    assert load_config(CONTAINER_EVAL, overrides, {}) == unset
    assert (unset.num_samples_in_parallel, unset.limit, unset.policy.model) == (64, None, None)


def test_a_variable_that_is_set_reaches_the_containers_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LIMIT": "10", "CONCURRENCY": "8", "MODEL": "7", "HEAD_URL": "http://h:1"}.items():
        monkeypatch.setenv(f"ROLLGYM_{name}", value)
    found = load_config(CONTAINER_EVAL, (), {})
    assert (found.limit, found.num_samples_in_parallel, found.policy.model) == (10, 8, "7")
    assert found.head_url == "http://h:1"
