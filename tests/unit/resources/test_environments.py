"""Environments: their addresses, and which one a row means."""

import pytest

from rollgym.common.errors import BadRequest
from rollgym.resources.environments import Environment, Environments, parse_environment_url


@pytest.mark.parametrize(
    ("url", "base", "socket"),
    [
        ("http://host:8200", "http://host:8200", "ws://host:8200/ws"),
        ("http://host:8200/", "http://host:8200", "ws://host:8200/ws"),
        ("http://host:8200/gridsim/", "http://host:8200/gridsim", "ws://host:8200/gridsim/ws"),
        ("https://host/http", "https://host/http", "wss://host/http/ws"),
        ("ws://host:8200/gridsim/ws", "http://host:8200/gridsim", "ws://host:8200/gridsim/ws"),
        ("wss://host", "https://host", "wss://host/ws"),
        ("http://[::1]:8200", "http://[::1]:8200", "ws://[::1]:8200/ws"),
        ("http://user:pw@host/x?y=1#z", "http://user:pw@host/x", "ws://user:pw@host/x/ws"),
    ],
)
def test_addresses(url: str, base: str, socket: str) -> None:
    found = Environment("e", parse_environment_url(url))
    assert (found.base_url, found.ws_url) == (base, socket)


@pytest.mark.parametrize(
    "url", ["", "host:8200", "ftp://host", "http://", "http://host:port", "http://host:99999", "x"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_environment_url(url)


@pytest.mark.parametrize(
    ("url", "address"),
    [("http://h:1/x", ("h", 1)), ("http://h", ("h", 80)), ("https://h", ("h", 443)), ("http://[::1]:9", ("::1", 9))],
)
def test_host_and_port(url: str, address: tuple[str, int]) -> None:
    assert Environment("e", url).address == address


def known(*names: str) -> Environments:
    return Environments(Environment(name, f"http://host/{name}") for name in names)


def test_a_row_chooses_by_name_and_the_only_one_needs_none() -> None:
    assert known("a", "b").chosen("b").name == "b"
    assert known("a").chosen(None).name == "a"


@pytest.mark.parametrize(
    ("environments", "name", "said"),
    [
        (known("gridsim", "echo"), "gridsm", "did you mean gridsim"),
        (known("gridsim", "echo"), None, "names no `env`"),
        (known(), None, "no --env is configured"),
        (known(), "x", "known: none"),
    ],
    ids=["typo", "several", "none configured", "unknown"],
)
def test_a_wrong_choice_names_what_there_is(environments: Environments, name: str | None, said: str) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        environments.chosen(name)
    assert caught.value.data["envs"] == environments.names


def test_timeouts_that_will_mask_are_warned_of() -> None:
    environments = Environments([Environment("a", "http://h", session_timeout_s=60), Environment("b", "http://h")])
    assert len(list(environments.warnings(idle_timeout_s=600, step_timeout_s=600))) == 2
    assert not list(environments.warnings(idle_timeout_s=60, step_timeout_s=30))
