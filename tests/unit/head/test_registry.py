"""Up, not responding, gone: the rules, with a clock turned by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from rollgym.common.errors import BadRequest
from rollgym.common.registration import ServerRegistration
from rollgym.head import registry as registry_module
from rollgym.head.errors import HeadFull, ServerUnknown
from rollgym.head.registry import Registry, ServerStatus

Make = Callable[..., ServerRegistration]
UP, SILENT, GONE = ServerStatus.UP, ServerStatus.NOT_RESPONDING, ServerStatus.GONE


def only(registry: Registry) -> Any:
    (server,) = registry.servers()
    return server


@pytest.mark.parametrize(
    ("silence_s", "status"),
    [(0, UP), (14.9, UP), (15.1, SILENT), (599, SILENT), (601, GONE)],
    ids=["at once", "within the ttl", "past the ttl", "a long stop", "longer than the silence limit"],
)
def test_silence_decides_the_status(
    registry: Registry, registration: Make, clock: Any, silence_s: float, status: str
) -> None:
    registry.heartbeat("resources-1", registration())
    clock.advance(silence_s)
    assert only(registry).status is status


def test_a_heartbeat_brings_a_silent_server_back(registry: Registry, registration: Make, clock: Any) -> None:
    registry.heartbeat("resources-1", registration())
    clock.advance(60)
    assert only(registry).status is SILENT
    registry.heartbeat("resources-1", registration())
    assert only(registry).status is UP


def test_a_ttl_longer_than_the_silence_limit_is_respected(clock: Any, registration: Make) -> None:
    registry = Registry(silence_limit_s=10, clock=clock, wall=clock)
    registry.heartbeat("resources-1", registration(ttl_s=100))
    clock.advance(50)
    assert only(registry).status is UP


def test_a_refused_connection_means_gone(registry: Registry, registration: Make) -> None:
    registry.connection_refused(registry.heartbeat("resources-1", registration()))
    assert (only(registry).status, only(registry).reason) == (GONE, "connection refused")
    assert registry.live() == []


def test_a_heartbeat_that_came_during_the_look_wins(registry: Registry, registration: Make, clock: Any) -> None:
    looked_at = registry.heartbeat("resources-1", registration())
    clock.advance(1)
    registry.heartbeat("resources-1", registration())
    registry.connection_refused(looked_at)
    assert only(registry).status is UP


def test_a_server_that_lives_though_its_port_refused_us_is_judged_by_heartbeats_alone(
    registry: Registry, registration: Make, clock: Any
) -> None:
    registry.connection_refused(registry.heartbeat("resources-1", registration()))
    clock.advance(5)
    server = registry.heartbeat("resources-1", registration())
    assert registry.probeable() == []
    registry.connection_refused(server)
    assert only(registry).status is UP
    clock.advance(16)
    assert only(registry).status is SILENT


def test_a_goodbye_stays_listed_for_a_while(registry: Registry, registration: Make, clock: Any) -> None:
    registry.heartbeat("resources-1", registration())
    assert registry.deregister("resources-1").status is GONE
    clock.advance(119)
    assert only(registry).reason == "deregistered"
    clock.advance(2)
    assert registry.servers() == []


def test_a_long_silent_server_is_forgotten_in_the_end(registry: Registry, registration: Make, clock: Any) -> None:
    registry.heartbeat("resources-1", registration())
    clock.advance(600 + 121)
    assert registry.servers() == []


def test_a_goodbye_of_a_stranger_is_refused(registry: Registry) -> None:
    with pytest.raises(ServerUnknown) as refused:
        registry.deregister("nobody-1")
    assert refused.value.data == {"instance_id": "nobody-1"}


def test_the_live_ones_of_a_name_come_first_then_the_longest_running(
    registry: Registry, registration: Make, clock: Any
) -> None:
    registry.heartbeat("c-silent", registration(started_at=1))
    clock.advance(20)
    registry.heartbeat("b-young", registration(started_at=30))
    registry.heartbeat("a-old", registration(started_at=20))
    registry.heartbeat("d-gone", registration(started_at=0))
    registry.deregister("d-gone")
    assert [server.instance_id for server in registry.servers()] == ["a-old", "b-young", "c-silent", "d-gone"]


def test_the_name_of_the_head_is_reserved(registry: Registry, registration: Make) -> None:
    with pytest.raises(BadRequest, match="head_server"):
        registry.heartbeat("x-1", registration(name="head_server"))


def test_a_full_registry_drops_the_gone_and_refuses_only_then(
    registry: Registry, registration: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "MAX_SERVERS", 2)
    registry.heartbeat("a-1", registration())
    registry.heartbeat("b-1", registration())
    with pytest.raises(HeadFull):
        registry.heartbeat("c-1", registration())
    registry.heartbeat("a-1", registration())
    registry.deregister("b-1")
    registry.heartbeat("c-1", registration())
    assert {server.instance_id for server in registry.servers()} == {"a-1", "c-1"}


def test_secrets_of_a_registration_are_never_kept(registry: Registry, registration: Make) -> None:
    secrets = {"api_key": "S3NT1NEL", "nested": [{"password": "S3NT1NEL"}], "max_tokens": 100}
    registry.heartbeat("r-1", registration(url="http://user:S3NT1NEL@host:1", metadata=secrets))
    wire = only(registry).to_wire()
    assert "S3NT1NEL" not in str(wire)
    assert wire["metadata"]["max_tokens"] == 100


def test_statuses_are_counted(registry: Registry, registration: Make, clock: Any) -> None:
    registry.heartbeat("a-1", registration())
    clock.advance(20)
    registry.heartbeat("b-1", registration())
    assert registry.count_by_status() == {"up": 1, "not_responding": 1, "gone": 0}
