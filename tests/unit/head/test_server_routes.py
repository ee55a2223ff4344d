"""The registry over HTTP: registration, goodbye, lists, refusals with a reason."""

import json
from typing import Any

import pytest

from rollgym.head.app import HeadSettings


async def test_a_server_registers_once_and_heartbeats_after(head: Any) -> None:
    first, second = await head.register("resources-1"), await head.register("resources-1")
    assert (first.status_code, second.status_code) == (201, 200)
    own, resources = (await head.json("/v1/servers"))["servers"]
    assert (own["name"], own["server_type"], own["status"], own["port"]) == ("head", "head", "up", 11000)
    assert resources["instance_id"] == "resources-1"
    assert {"status": "up", "age_s": 0.0, "last_heartbeat_at": head.clock.now}.items() <= resources.items()
    assert resources["metadata"] == {"envs": ["gridsim"]}


async def test_a_restarted_head_learns_its_servers_from_their_next_heartbeat(head: Any) -> None:
    """Nothing but the heartbeat is needed: it is the registration."""
    assert (await head.register("resources-1")).status_code == 201
    assert len((await head.json("/v1/servers?name=resources"))["servers"]) == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=resources", ["resources-1", "resources-2"]),
        ("server_type=head", ["head"]),
        ("name=resources&status=up", ["resources-2"]),
        ("status=gone", []),
    ],
)
async def test_lists_are_filtered(head: Any, query: str, found: list[str]) -> None:
    await head.register("resources-1")
    head.clock.advance(16)
    await head.register("resources-2")
    shown = (await head.json(f"/v1/servers?{query}"))["servers"]
    assert sorted(server["instance_id"] for server in shown) == found


async def test_a_goodbye_is_answered_with_the_last_state(head: Any) -> None:
    await head.register("resources-1")
    answer = await head.client.delete("/v1/servers/resources-1")
    assert (answer.status_code, answer.json()["status"]) == (200, "gone")
    assert (await head.client.delete("/v1/servers/nobody-1")).json()["code"] == "server_unknown"


async def test_a_server_bound_to_all_interfaces_is_listed_where_it_came_from(head: Any) -> None:
    await head.register("resources-1", host="0.0.0.0", url="http://0.0.0.0:8300")
    _, server = (await head.json("/v1/servers"))["servers"]
    assert (server["host"], server["url"]) == ("10.0.0.9", "http://10.0.0.9:8300")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no body"),
        (b"{", "no JSON"),
        (b"[]", "array"),
        (b'{"name": NaN}', "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b'{"name": "x"}', "server_type"),
        (b'{"name": 5, "server_type": "t", "host": "h", "port": 0, "url": "ftp://x", "started_at": "now"}', "port"),
    ],
    ids=["empty", "cut", "array", "NaN", "not UTF-8", "fields missing", "fields wrong"],
)
async def test_a_bad_body_is_refused_with_a_reason(head: Any, content: bytes, says: str) -> None:
    answer = await head.client.put("/v1/servers/resources-1", content=content)
    assert answer.status_code == 400
    body = answer.json()
    assert set(body) == {"code", "message", "data"}
    assert body["code"] == "bad_request"
    assert says in body["message"]


@pytest.mark.parametrize("instance_id", ["-x", "a b", "%3Cscript%3E", "x" * 129, "a%0Ab"])
async def test_a_bad_instance_id_is_refused(head: Any, instance_id: str) -> None:
    answer = await head.register(instance_id)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/servers/x/y", 404, "not_found"),
        ("POST", "/v1/servers", 405, "method_not_allowed"),
        ("DELETE", "/v1/runs/x", 405, "method_not_allowed"),
        ("PUT", "/", 405, "method_not_allowed"),
    ],
)
async def test_a_wrong_address_gets_a_clear_body(head: Any, method: str, path: str, status: int, code: str) -> None:
    answer = await head.client.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert path in answer.json()["message"]


async def test_a_body_over_the_limit_is_refused(head: Any) -> None:
    answer = await head.client.put("/v1/servers/a-1", content=b" " * (head.settings.max_body_bytes + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/metrics"])
async def test_liveness_answers_200(head: Any, path: str) -> None:
    assert (await head.client.get(path)).status_code == 200


class TestWithAToken:
    @pytest.fixture
    def settings(self) -> HeadSettings:
        return HeadSettings(database=":memory:", probe_interval_s=60, token="let-me-write")

    @pytest.mark.parametrize(
        ("method", "path"), [("PUT", "/v1/servers/a-1"), ("DELETE", "/v1/servers/a-1"), ("PUT", "/v1/runs/a")]
    )
    async def test_what_writes_asks_for_it(self, head: Any, method: str, path: str) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic let-me-write"}):
            answer = await head.client.request(method, path, json={}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        answer = await head.client.request(method, path, json={}, headers={"Authorization": "Bearer let-me-write"})
        assert answer.status_code in (400, 404)

    @pytest.mark.parametrize(
        "path",
        ["/", "/ui", "/health", "/ready", "/metrics", "/v1/servers", "/v1/runs", "/server_instances", "/sd/prometheus",
         "/global_config_dict_yaml"],
    )  # fmt: skip
    async def test_what_reads_stays_open_and_never_shows_it(self, head: Any, path: str) -> None:
        answer = await head.client.get(path)
        assert answer.status_code == 200
        assert "let-me-write" not in answer.text


SENTINEL = "S3NT1NEL"
EVERY_GET = [
    "/", "/ui", "/ui/runs/r1", "/health", "/ready", "/metrics", "/v1/servers", "/v1/runs", "/v1/runs/r1",
    "/server_instances", "/sd/prometheus", "/global_config_dict_yaml",
]  # fmt: skip


@pytest.mark.parametrize("path", EVERY_GET)
async def test_no_route_ever_shows_a_secret(head: Any, path: str) -> None:
    secrets = {
        "api_key": SENTINEL, "password": SENTINEL, "client_secret": SENTINEL, "credential": SENTINEL,
        "authorization": f"Bearer {SENTINEL}", "endpoint": f"http://me:{SENTINEL}@host/v1", "max_tokens": 100,
        "nested": [{"deep": {"access_token": SENTINEL}}], "overrides": [f"++policy.api_key={SENTINEL}"],
    }  # fmt: skip
    await head.register("resources-1", metadata={**secrets, "config": secrets}, url=f"http://me:{SENTINEL}@h:1")
    answer = await head.report(
        "r1",
        name=f"run password={SENTINEL}",
        state="failed",
        output=f"s3://me:{SENTINEL}@bucket/out.jsonl",
        summary={**secrets, "warnings": [f"api_key={SENTINEL}"]},
        metrics_text=f'# TYPE rollgym_x gauge\nrollgym_x{{token="{SENTINEL}",url="http://me:{SENTINEL}@h"}} 1\n',
        ended_at=head.clock.now,
    )
    assert answer.is_success
    assert SENTINEL not in answer.text
    for accept in ("text/html", "application/json"):
        shown = await head.client.get(path, headers={"Accept": accept})
        assert shown.status_code == 200
        assert SENTINEL not in shown.text
    assert SENTINEL not in json.dumps((await head.client.get("/v1/runs/nobody")).json())
    if path == "/v1/runs/r1":
        assert (await head.json(path))["summary"]["max_tokens"] == 100
