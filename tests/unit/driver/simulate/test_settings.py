"""Flags of the simulator: what is wrong is said in one line a problem, by the flag's name."""

from pathlib import Path
from typing import Any

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.driver.cli import main
from rollgym.driver.simulate.settings import SimulationSettings, parse_simulation


def test_defaults_are_the_production_shape() -> None:
    settings = SimulationSettings()
    assert (settings.rollouts, settings.concurrency) == (4096, 1024)
    assert (settings.messages, settings.characters) == (80, 2000)
    assert settings.variants == ("default", "tuned", "off")


def test_flags_arrive_as_text() -> None:
    settings = parse_simulation({"tasks": "8", "latency": "fixed:0", "variants": "tuned,off", "out": "there"})
    assert (settings.tasks, str(settings.latency), settings.variants) == (8, "fixed:0", ("tuned", "off"))
    assert settings.out == Path("there")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tasks": "0"}, "--tasks: "),
        ({"concurrency": "5000"}, "--concurrency: "),
        ({"latency": "slow"}, "--latency: 'slow' is no latency"),
        ({"variants": "default,fast"}, "--variants: no variant 'fast'"),
        ({"variants": "off,off"}, "--variants: each variant once"),
        ({"fail_rate": "1.5"}, "--fail-rate: Input should be less than or equal to 1 (got 1.5)"),
        ({"out": __file__}, f"--out: {__file__} is a file, not a folder"),
        ({"overrides": ("++max_resident=2",)}, "unknown setting 'max_resident' (did you mean max_resident_rollout"),
        ({"overrides": ("++max_resident_rollout_tasks=lots",)}, "max_resident_rollout_tasks: "),
        ({"ceiling": True, "rate": "5"}, "--ceiling raises the concurrency of a closed loop"),
        ({"rate": "5", "agents": "2"}, "--rate is kept by one agent process"),
        ({"ceiling": True, "concurrency": "8"}, "--ceiling-from is above --concurrency"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_simulation(values)
    assert refused.value.message.startswith(said)


def test_the_command_refuses_a_wrong_value_and_starts_nothing(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["simulate", "capacity", "--tasks", "none", "--out", str(tmp_path / "out")]) == 2
    assert "--tasks" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_setting_is_a_flag_with_a_word_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "capacity", "--help"])
    helped = " ".join(capsys.readouterr().out.split())
    for name, field in SimulationSettings.model_fields.items():
        assert name == "overrides" or f"--{(field.alias or name).replace('_', '-')}" in helped
        assert field.description
