"""A container that is out of the network for a while under load: what it cost, and that nothing of it is left."""

import re
import time

import pytest

from compose.stack import Stack, rows
from waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

CUT_S = 5


def slots_in_use(stack: Stack) -> int:
    text = stack.container("env-bundle").get_text(8200, "/metrics")
    return int(float(re.findall(r"^rollgym_env_slots_in_use (\S+)$", text, re.M)[0]))


@pytest.mark.parametrize("name", ["env-bundle", "resources"])
def test_5_s_without_a_network_cost_no_rollout_and_no_slot(services: Stack, name: str) -> None:
    before = services.result_folders()
    with services.background_eval() as driver:
        (folder,) = wait_until(lambda: services.result_folders() - before, 60)
        results = folder / "rollouts.jsonl"
        wait_until(lambda: results.stat().st_size > 0, 60)
        with services.cut_off(services.containers(name)[0]):
            assert slots_in_use(services) > 0
            time.sleep(CUT_S)
        assert driver.wait_exit_code() == 0, driver.logs()
    found = rows(results)
    assert len({(row["_ng_task_index"], row["_ng_rollout_index"]) for row in found}) == len(found) == 200
    assert all(isinstance(row["reward"], float) for row in found)
    wait_until(lambda: slots_in_use(services) == 0, 30, pause_s=0.5)
