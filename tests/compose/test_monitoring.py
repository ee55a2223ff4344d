"""A real Prometheus in the containers' network sees every process, and every query of the dashboard returns data."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compose.conftest import REPLICAS
from compose.stack import Stack
from needs import ROOT
from waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/rollgym.json").read_text())
AS_GRAFANA_FILLS_IN = {"$__rate_interval": "20s", "$job": ".*"}
PROCESSES = {"rollgym-head": 1, "rollgym-env-bundle": 1, "rollgym-resources": REPLICAS, "rollgym-driver": 1}


def queries() -> dict[str, str]:
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in AS_GRAFANA_FILLS_IN.items():
                expression = expression.replace(name, value)
            found[f"{panel['title']} / {target['refId']}"] = expression
    return found


@pytest.fixture
def under_load(services: Stack) -> Iterator[Stack]:
    with services.background_eval("++num_repeats=100"):
        yield services


def ask(stack: Stack, expression: str) -> list[dict[str, Any]]:
    answer = stack.get("prometheus", 9090, "/api/v1/query", query=expression)
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def test_every_process_is_up_and_every_query_returns_data(under_load: Stack) -> None:
    def up() -> bool:
        found = ask(under_load, 'count by (job) (up{job=~"rollgym-.*"} == 1)')
        assert {each["metric"]["job"]: int(each["value"][1]) for each in found} == PROCESSES
        return True

    wait_until(up, 60, pause_s=0.5)
    waiting = queries()

    def none_is_empty() -> bool:
        for name in list(waiting):
            if ask(under_load, waiting[name]):
                del waiting[name]
        assert not waiting
        return True

    wait_until(none_is_empty, 90, pause_s=1)


def test_the_last_values_of_a_run_outlive_its_driver(services: Stack) -> None:
    finished = [run for run in services.get("head", 11000, "/v1/runs")["runs"] if run["state"] == "finished"]
    run_id = finished[-1]["run_id"]  # the newest comes first; the oldest is the eval that came with `up`

    def kept() -> list[dict[str, Any]]:
        return ask(services, f'rollgym_run_rollouts_total{{run_id="{run_id}", outcome="succeeded"}} == 200')

    wait_until(kept, 30, pause_s=0.5)
    wait_until(lambda: not ask(services, "rollgym_rollouts_in_flight"), 30, pause_s=0.5)
