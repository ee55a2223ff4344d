"""The servers of a run: read from either head's listing, chosen by least load, an odd record no crash."""

from typing import Any

import pytest

from rollgym.common.errors import AgentRequestFailed, ConfigurationError, EnvLost, EnvRefused, RollgymError
from rollgym.driver.fleet import Fleet, HeadClient, _server
from rollgym.driver.plan import check_names
from rollgym.driver.tasks import TaskSurvey
from unit.driver.configs import config


def record(name: str = "resources", kind: str = "resources_servers", **fields: Any) -> dict[str, Any]:
    return {"name": name, "server_type": kind, "url": f"http://h/{name}", "instance_id": name, **fields}


def fleet(*records: dict[str, Any]) -> Fleet:
    servers = [server for server in map(_server, records) if server is not None]
    return Fleet(HeadClient("http://head:1"), {server.instance_id: server for server in servers})


@pytest.mark.parametrize(
    "odd",
    [
        None, 5, "text", [], {}, {"name": 5, "url": "http://h"}, {"name": "a"}, record(status="gone"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_server_is_passed_over(odd: Any) -> None:
    assert _server(odd) is None


@pytest.mark.parametrize(
    "metadata",
    [None, [], "x", {"envs": "gridsim"}, {"envs": 5}, {"sessions_open": "many"}, {"sessions_waiting": None}],
    ids=str,
)
def test_odd_metadata_tells_nothing_and_does_no_harm(metadata: Any) -> None:
    server = _server(record(metadata=metadata))
    assert server is not None
    assert (server.envs, server.reported_load) == (None, 0)


def test_an_address_of_nemo_gyms_head_is_understood() -> None:
    server = _server({"name": "a", "server_type": "responses_api_agents", "url": "http://h:1/", "status": "success"})
    assert server is not None
    assert (server.url, server.responding, server.envs) == ("http://h:1", True, None)


def test_the_least_loaded_replica_that_plays_the_environment_is_chosen() -> None:
    known = fleet(
        record("a", metadata={"envs": ["x"], "sessions_open": 5}),
        record("b", metadata={"envs": ["x"], "sessions_open": 1}),
        record("c", metadata={"envs": ["y"]}),
        record("d", metadata={"envs": ["x"]}, status="not_responding"),
    )
    with known.resources_for("x") as first:
        assert first.name == "b"
        assert known.resources_for("x").name == "a"
    assert known.resources_for("x").name == "b"


def test_load_is_given_back_when_a_rollout_fails() -> None:
    known = fleet(record("a", metadata={"envs": ["x"]}))
    with pytest.raises(KeyError), known.resources_for("x"):
        raise KeyError
    assert known.resources_for("x").in_flight == 0


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (fleet(), "no resources server is registered with the head at http://head:1"),
        (fleet(record(metadata={"envs": ["gridsim"]})), "did you mean gridsim?"),
    ],
    ids=["none", "a-typo"],
)
def test_an_environment_that_nobody_plays_is_refused(known: Fleet, said: str) -> None:
    with pytest.raises(EnvRefused) as refused:
        known.resources_for("gridsin")
    assert said in refused.value.message


AGENT = record("mine", "responses_api_agents")
GRIDSIM = record("resources", metadata={"envs": ["gridsim"]})


def survey(*names: tuple[str | None, str | None], **unplayable: str) -> TaskSurvey:
    from pathlib import Path

    found = TaskSurvey(Path("tasks.jsonl"), names={pair: line for line, pair in enumerate(names, 1)})
    found.unplayable = {None if name == "none" else name: (1, reason) for name, reason in unplayable.items()}
    return found


@pytest.mark.parametrize(
    ("known", "used", "remarks"),
    [
        pytest.param(fleet(GRIDSIM), survey((None, "gridsim")), 0, id="known"),
        pytest.param(fleet(GRIDSIM), survey((None, None)), 0, id="names-none"),
        pytest.param(fleet(AGENT), survey(("mine", "elsewhere")), 0, id="an-agents-own-environment"),
        pytest.param(
            fleet(AGENT, GRIDSIM), survey((None, "gridsim"), ("mine", "elsewhere")), 0, id="each-row-by-who-runs-it"
        ),
        pytest.param(fleet(AGENT), survey(("mine", None), mine="seed must be"), 0, id="an-agents-own-seed"),
        pytest.param(fleet(GRIDSIM), survey(("gone", "gridsim"), ("gone", None)), 1, id="unregistered-agent-said-once"),
        pytest.param(fleet(), survey(), 0, id="no-row-needs-no-server"),
    ],
)
def test_names_that_have_a_server_pass(tmp_path: Any, known: Fleet, used: TaskSurvey, remarks: int) -> None:
    assert len(check_names(used, config(tmp_path), known)) == remarks


@pytest.mark.parametrize(
    ("known", "used", "said"),
    [
        pytest.param(
            fleet(GRIDSIM),
            survey((None, "gridsin")),
            r"line 1: unknown environment 'gridsin' \(did you mean",
            id="typo",
        ),
        pytest.param(fleet(AGENT), survey((None, "gridsim")), "no resources server is registered", id="no-server"),
        pytest.param(fleet(), survey((None, None)), "no resources server is registered", id="no-server-no-name"),
        pytest.param(
            fleet(GRIDSIM), survey((None, "gridsim"), none="seed must be an integer"), "line 1: seed must", id="seed"
        ),
    ],
)
def test_names_that_have_none_are_refused_before_the_start(
    tmp_path: Any, known: Fleet, used: TaskSurvey, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_names(used, config(tmp_path), known)


@pytest.mark.parametrize(
    ("error", "avoided"),
    [
        (EnvRefused("nobody listens"), True),
        (AgentRequestFailed("connection reset", url="http://h"), True),
        (EnvRefused("its environment is not there", http_status=502), False),
        (AgentRequestFailed("answered 500", status=500), False),
        (EnvLost("died"), False),
    ],
    ids=["refused", "agent-unreachable", "environment-refused", "agent-500", "lost"],
)
def test_a_replica_that_cannot_be_reached_does_not_swallow_the_run(error: RollgymError, avoided: bool) -> None:
    known = fleet(record("a", metadata={"envs": ["x"]}), record("b", metadata={"envs": ["x"], "sessions_open": 9}))
    with pytest.raises(type(error)), known.resources_for("x"):
        raise error
    assert known.resources_for("x").name == ("b" if avoided else "a")
