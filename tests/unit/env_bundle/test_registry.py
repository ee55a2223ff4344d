"""Environments by name, and loading one from a module or a file; each mistake names itself."""

import textwrap
from pathlib import Path

import pytest

from rollgym.common.errors import ConfigurationError
from rollgym.env_bundle.environments.echo import Echo
from rollgym.env_bundle.environments.wordle import Wordle
from rollgym.env_bundle.registry import BUILT_IN, Registry, load

ONE_CLASS = """
from rollgym.env_bundle.environment import Action, Environment, Observation

class Mine(Environment[Action]):
    name, description, action_type = "mine", "Mine.", Action
    def reset(self, arguments): return Observation()
    def step(self, action): return Observation()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(ONE_CLASS))
    return path


def test_names_and_the_default() -> None:
    registry = Registry(BUILT_IN, default="echo")
    assert list(registry) == ["gridsim", "wordle", "echo"]
    assert registry.find(None) is registry.find("echo") is Echo
    assert registry.find("nobody") is None


def test_an_unknown_default_names_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"gridsmi.*did you mean gridsim"):
        Registry(BUILT_IN, default="gridsmi")


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="two environments are called 'echo'"):
        Registry([Echo, Echo], default="echo")


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "admin", "health", "metrics"])
def test_a_name_that_cannot_be_a_path_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no usable name"):
        Registry([type("Odd", (Echo,), {"name": name})], default="echo")


def test_load_from_a_module() -> None:
    assert load("rollgym.env_bundle.environments.wordle:Wordle") is Wordle


def test_load_from_a_file_with_and_without_the_class(file: Path) -> None:
    assert load(str(file)).name == load(f"{file}:Mine").name == "mine"


def test_a_loaded_class_works_when_the_file_imports_others(file: Path) -> None:
    file.write_text(file.read_text() + "\nfrom rollgym.env_bundle.environments.echo import Echo\n")
    assert load(str(file)).name == "mine"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        pytest.param("no.such.module:Thing", "cannot import no.such.module", id="module"),
        pytest.param("rollgym.env_bundle.environments.echo:Ecko", r"'Ecko' \(did you mean Echo", id="class"),
        pytest.param("missing.py", "no file missing.py", id="file"),
        pytest.param("rollgym.env_bundle.frames", "name one class", id="none-in-it"),
    ],
)
def test_each_mistake_is_named(reference: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(reference)


def test_a_file_that_fails_says_how(file: Path) -> None:
    file.write_text("1 / 0")
    with pytest.raises(ConfigurationError, match="ZeroDivisionError"):
        load(str(file))
