"""HTTP beside the socket: descriptions, stateless reset and step, and one error form for every mistake."""

from typing import Any

import httpx
import pytest

from integration.env_bundle.client import Admin
from plain_http import PLAIN
from processes import RunningCommand

ENVIRONMENTS = ["gridsim", "wordle", "echo"]


@pytest.fixture
def http(shared_bundle: RunningCommand, admin: Admin) -> Any:
    with httpx.Client(base_url=shared_bundle.url, trust_env=False, verify=PLAIN) as client:
        yield client


@pytest.mark.parametrize("path", ["", *(f"/{name}" for name in ENVIRONMENTS), "/number-hunt"])
def test_every_environment_describes_itself(http: httpx.Client, path: str) -> None:
    name = path.strip("/") or "gridsim"
    assert http.get(f"{path}/health").json()["status"] == "healthy"
    assert http.get(f"{path}/metadata").json()["name"] == name
    assert {"action", "observation", "state"} <= set(http.get(f"{path}/schema").json())
    document = http.get(f"{path}/openapi.json").json()
    assert document["info"]["title"] == name
    assert {"/reset", "/step", "/state", "/health", "/metadata", "/schema", "/mcp"} == set(document["paths"])


def test_the_root_tells_what_is_served(http: httpx.Client) -> None:
    served = http.get("/").json()["environments"]
    assert [each["name"] for each in served] == [*ENVIRONMENTS, "number-hunt", "broken"]
    assert [each["name"] for each in served if each["default"]] == ["gridsim"]


def test_reset_answers_like_the_socket_and_keeps_nothing(http: httpx.Client, admin: Admin) -> None:
    answer = http.post("/gridsim/reset", json={"seed": 3}).json()
    assert answer["observation"]["state"]["hour"] == 0
    assert (answer["reward"], answer["done"]) == (None, False)
    assert admin.active() == 0


def test_reset_without_a_body_draws_a_seed(http: httpx.Client) -> None:
    assert http.post("/wordle/reset").json()["done"] is False


def test_step_works_where_no_reset_is_needed(http: httpx.Client) -> None:
    answer = http.post("/gridsim/step", json={"action": {"type": "list_tools"}}).json()
    assert len(answer["observation"]["tools"]) == 3


def test_state_is_that_of_a_fresh_instance(http: httpx.Client) -> None:
    assert http.get("/echo/state").json() == {"episode_id": None, "step_count": 0, "seed": None}


def test_mcp_over_http(http: httpx.Client) -> None:
    answer = http.post("/gridsim/mcp", json={"jsonrpc": "2.0", "id": "a", "method": "tools/list"}).json()
    assert (answer["jsonrpc"], answer["id"], len(answer["result"]["tools"])) == ("2.0", "a", 3)
    assert http.post("/gridsim/mcp", content=b"{").json()["error"]["code"] == -32700


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        pytest.param("GET", "/chess/schema", b"", 404, "unknown_environment", id="unknown-environment"),
        pytest.param("GET", "/chess/health", b"", 404, "unknown_environment", id="unknown-environments-health"),
        pytest.param("GET", "/nowhere/at/all", b"", 404, "not_found", id="unknown-path"),
        pytest.param("GET", "/echo/reset", b"", 405, "method_not_allowed", id="method"),
        pytest.param("POST", "/echo/reset", b"{", 400, "bad_request", id="no-json"),
        pytest.param("POST", "/echo/reset", b"[]", 400, "bad_request", id="no-object"),
        pytest.param("POST", "/echo/reset", b'{"seed":"x"}', 422, "invalid_arguments", id="bad-seed"),
        pytest.param("POST", "/echo/step", b"{}", 422, "invalid_arguments", id="no-action"),
        pytest.param("POST", "/echo/step", b'{"action":{"x":1}}', 422, "invalid_arguments", id="bad-action"),
        pytest.param("POST", "/echo/step", b'{"action":{}}', 409, "episode_refused", id="not-reset"),
        pytest.param("GET", "/admin/nothing", b"", 404, "not_found", id="unknown-admin-route"),
    ],
)
def test_each_mistake_has_its_status_and_the_one_error_form(
    http: httpx.Client, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    answer = http.request(method, path, content=body)
    assert answer.status_code == status
    assert (answer.json()["code"], sorted(answer.json())) == (code, ["code", "data", "message"])
