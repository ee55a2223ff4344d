"""What ends out of order under load: a network that is cut, a driver that is killed. It costs no rollout, no slot."""

import re
import time
from pathlib import Path

import pytest

from compose.stack import Container, Stack, rows
from waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(400)]

CUT_S = 5
NOTICED_WITHIN_S = 60
"""A connection whose other end is gone ends 40 s later (the environment server's pings), 50 s (the kernel's)."""
TASKS, REPEATS = 200, 3


def slots_in_use(stack: Stack) -> int:
    text = stack.container("env-bundle").get_text(8200, "/metrics")
    return int(float(re.findall(r"^rollgym_env_slots_in_use (\S+)$", text, re.M)[0]))


def every_slot_is_free(stack: Stack) -> None:
    wait_until(lambda: slots_in_use(stack) == 0, NOTICED_WITHIN_S, pause_s=0.5)


def test_a_killed_driver_keeps_no_slot(services: Stack) -> None:
    before = services.result_folders()
    with services.background_eval("++num_repeats=100"):
        first_row_of_the_run_after(services, before)
        assert slots_in_use(services) > 0
    every_slot_is_free(services)


@pytest.mark.parametrize("name", ["env-bundle", "resources"])
def test_5_s_without_a_network_cost_no_rollout_and_no_slot(services: Stack, name: str) -> None:
    every_slot_is_free(services)  # whatever the test before had killed
    before = services.result_folders()
    with services.background_eval(f"++num_repeats={REPEATS}") as driver:
        results = first_row_of_the_run_after(services, before)
        with services.cut_off(services.containers(name)[0]):
            assert slots_in_use(services) > 0
            time.sleep(CUT_S)
        assert not ended(driver), driver.logs()
        assert driver.wait_exit_code() == 0, driver.logs()
    found = rows(results)
    assert len({(row["_ng_task_index"], row["_ng_rollout_index"]) for row in found}) == len(found) == TASKS * REPEATS
    assert all(isinstance(row["reward"], float) for row in found)
    every_slot_is_free(services)


def first_row_of_the_run_after(stack: Stack, before: set[Path]) -> Path:
    """The results of a run that began after those of `before`, once there are some: sessions are being played."""
    (folder,) = wait_until(lambda: stack.result_folders() - before, 60)
    results = folder / "rollouts.jsonl"
    wait_until(lambda: results.stat().st_size > 0, 60)
    return results


def ended(container: Container) -> bool:
    return bool(container.state["Status"] == "exited")
