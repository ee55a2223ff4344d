"""The dashboard as a file: what Grafana would refuse, or a reader would miss, without any container."""

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from needs import ROOT

GRAFANA = ROOT / "deploy/grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards/rollgym.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
UNITS = {"short", "s", "percentunit", "ops", "cpm"}  # ids of Grafana's unit list


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 20
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_panels_ask_the_provisioned_data_source() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    used = {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]}
    assert used == {source["uid"] for source in sources}


def test_no_query_has_an_unbounded_label() -> None:
    grouped = [
        by for panel in PANELS for target in panel["targets"] for by in re.findall(r"by \(([^)]*)\)", target["expr"])
    ]
    assert grouped
    assert not [by for by in grouped if re.search(r"task|rollout_id|session_id", by)]


def test_grafana_finds_the_dashboard_where_compose_mounts_it() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["grafana"]
    provider = yaml.safe_load((GRAFANA / "provisioning/dashboards/rollgym.yml").read_text())["providers"][0]
    mounts = dict(reversed(volume.removesuffix(":ro").rsplit(":", 1)) for volume in compose["volumes"])
    assert mounts[provider["options"]["path"]] == "./deploy/grafana/dashboards"
    assert mounts["/etc/grafana/provisioning"] == "./deploy/grafana/provisioning"
