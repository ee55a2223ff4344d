"""The shape that Prometheus' `http_sd_configs` takes, and who is in it."""

from collections.abc import Callable
from typing import Any

from rollgym.common.registration import ServerRegistration
from rollgym.head.discovery import targets
from rollgym.head.registry import Registry

Make = Callable[..., ServerRegistration]


def test_every_live_process_is_one_target_and_the_head_is_the_first(
    registry: Registry, registration: Make, clock: Any
) -> None:
    registry.heartbeat("driver-1", registration(name="driver", server_type="driver", host="10.0.0.8", port=9464))
    registry.heartbeat("resources-1", registration(host="fd00::7"))
    assert targets(registry.live(), ("head", 11000)) == [
        {
            "targets": ["head:11000"],
            "labels": {"job": "rollgym-head", "instance": "head:11000", "server_type": "head"},
        },
        {
            "targets": ["10.0.0.8:9464"],
            "labels": {"job": "rollgym-driver", "instance": "driver-1", "server_type": "driver"},
        },
        {
            "targets": ["[fd00::7]:8300"],
            "labels": {"job": "rollgym-resources", "instance": "resources-1", "server_type": "resources_servers"},
        },
    ]


def test_silent_servers_stay_targets_and_gone_ones_leave(registry: Registry, registration: Make, clock: Any) -> None:
    registry.heartbeat("resources-1", registration())
    registry.heartbeat("resources-2", registration())
    registry.deregister("resources-2")
    clock.advance(60)
    assert [target["labels"]["instance"] for target in targets(registry.live(), ("h", 1))] == ["h:1", "resources-1"]


def test_a_server_says_where_its_metrics_are_or_that_it_has_none(registry: Registry, registration: Make) -> None:
    registry.heartbeat("a-1", registration(name="a", metadata={"metrics": False}))
    registry.heartbeat("b-1", registration(name="b", metadata={"metrics_path": "/own/metrics"}))
    _, found = targets(registry.live(), ("h", 1))
    assert found["labels"]["__metrics_path__"] == "/own/metrics"
