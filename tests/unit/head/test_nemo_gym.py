"""What NeMo Gym's clients read, walked through the way they walk it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from rollgym.common.registration import ServerRegistration
from rollgym.head.nemo_gym import config_yaml, server_instances
from rollgym.head.registry import Registry

Make = Callable[..., ServerRegistration]
HEAD = ("127.0.0.1", 11000)


def first_server_config(config: dict[str, Any], name: str) -> dict[str, Any]:
    """As NeMo Gym finds a server: the first value of the first value under its name."""
    return dict(next(iter(next(iter(config[name].values())).values())))


def test_a_server_is_found_the_way_a_client_looks_for_it(registry: Registry, registration: Make) -> None:
    registry.heartbeat(
        "agent-1", registration(name="agent", server_type="responses_api_agents", implementation="simple")
    )
    config = yaml.safe_load(config_yaml(registry.live(), HEAD))
    assert config["head_server"] == {"host": "127.0.0.1", "port": 11000}
    assert list(config["agent"]) == ["responses_api_agents"]
    assert list(config["agent"]["responses_api_agents"]) == ["simple"]
    found = first_server_config(config, "agent")
    assert (found["host"], found["port"]) == ("10.0.0.7", 8300)


def test_replicas_share_a_name_and_the_longest_running_has_it(
    registry: Registry, registration: Make, clock: Any
) -> None:
    for index in (2, 1, 3):
        registry.heartbeat(f"resources-{index}", registration(started_at=index, port=8300 + index))
    config = yaml.safe_load(config_yaml(registry.live(), HEAD))
    assert list(config) == ["head_server", "resources", "resources-2", "resources-3"]
    assert first_server_config(config, "resources")["port"] == 8301


def test_the_plain_name_is_never_that_of_a_silent_replica_while_another_is_up(
    registry: Registry, registration: Make, clock: Any
) -> None:
    registry.heartbeat("resources-1", registration(started_at=1, port=8301))
    clock.advance(20)
    registry.heartbeat("resources-2", registration(started_at=2, port=8302))
    config = yaml.safe_load(config_yaml(registry.live(), HEAD))
    assert first_server_config(config, "resources")["port"] == 8302
    assert first_server_config(config, "resources-1")["port"] == 8301


def test_a_name_that_is_an_instance_id_loses_no_server(registry: Registry, registration: Make) -> None:
    registry.heartbeat("a-1", registration(name="a", started_at=1))
    registry.heartbeat("b-1", registration(name="b", started_at=1))
    registry.heartbeat("b", registration(name="a", started_at=2))
    assert len(yaml.safe_load(config_yaml(registry.live(), HEAD))) == 4


def test_only_types_that_nemo_gym_knows_are_configured(registry: Registry, registration: Make) -> None:
    registry.heartbeat("env-bundle-1", registration(name="env-bundle", server_type="env_bundle"))
    registry.heartbeat("driver-1", registration(name="driver", server_type="driver"))
    assert list(yaml.safe_load(config_yaml(registry.live(), HEAD))) == ["head_server"]
    assert [server["name"] for server in server_instances(registry.live())] == ["driver", "env-bundle"]


def test_published_settings_are_there_without_secrets_and_cannot_move_the_address(
    registry: Registry, registration: Make
) -> None:
    published = {"api_key": "S3NT1NEL", "max_tokens": 100, "host": "elsewhere", "model": "${oc.env:HOME}"}
    registry.heartbeat("r-1", registration(metadata={"config": published, "envs": ["gridsim"]}))
    text = config_yaml(registry.live(), HEAD)
    found = first_server_config(yaml.safe_load(text), "resources")
    assert "S3NT1NEL" not in text
    assert (found["host"], found["max_tokens"], found["envs"]) == ("10.0.0.7", 100, ["gridsim"])
    assert found["model"] == "\\${oc.env:HOME}"


@pytest.mark.parametrize("name", ["yes", "12", "ünïcode", "with: colon", "# hash", "line\nbreak"])
def test_any_name_survives_yaml(registry: Registry, registration: Make, name: str) -> None:
    registry.heartbeat("r-1", registration(name=name))
    assert name in yaml.safe_load(config_yaml(registry.live(), HEAD))


def test_instances_have_what_the_status_command_reads(registry: Registry, registration: Make, clock: Any) -> None:
    registry.heartbeat("resources-1", registration(started_at=1))
    clock.advance(20)
    registry.heartbeat("resources-2", registration(started_at=2))
    registry.heartbeat("resources-3", registration(started_at=3))
    registry.deregister("resources-3")
    first, second = server_instances(registry.live())
    assert (first["process_name"], first["name"], first["server_type"]) == (
        "resources",
        "resources",
        "resources_servers",
    )
    assert (first["status"], second["status"]) == ("success", "timeout")
    assert (second["process_name"], second["rollgym_status"]) == ("resources-1", "not_responding")
    assert {"host", "port", "url", "pid", "start_time", "uptime_seconds"} <= set(first)
    assert first["uptime_seconds"] >= 0


async def test_the_routes_answer_a_json_string_and_a_list(head: Any) -> None:
    await head.register("resources-1")
    text = (await head.client.get("/global_config_dict_yaml")).text
    config = yaml.safe_load(json.loads(text))
    assert config["head_server"]["port"] == 11000
    assert first_server_config(config, "resources")["port"] == 8300
    assert [server["name"] for server in await head.json("/server_instances")] == ["resources"]
