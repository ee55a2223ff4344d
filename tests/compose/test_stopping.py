"""`docker stop` ends every container by itself: right after its start, under load, as PID 1 and under an init."""

from collections.abc import Callable

import pytest

from compose.stack import Container, Stack, docker, rows
from waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

KILLED = 137
GRACE_S = 15
INTERRUPTED = 143
COMMANDS = {
    "head": [],
    "env-bundle": [],
    "resources": ["serve", "--env=echo=http://127.0.0.1:1/echo"],
    "driver": ["eval", "run", "--no-serve", "--input=/opt/rollgym/eval.yaml", "--output=/tmp/out.jsonl"],
}


def stop(container: Container) -> int:
    docker("stop", "--time", str(GRACE_S), container.id)
    return int(container.state["ExitCode"])


def at_once(container: Container) -> bool:
    return True


def while_python_imports(container: Container) -> bool:
    return "python" in docker("top", container.id).stdout


@pytest.mark.parametrize("moment", [at_once, while_python_imports])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_stop_before_there_is_a_handler_is_not_lost(
    stack: Stack, name: str, moment: Callable[[Container], bool]
) -> None:
    image = f"rollgym/{name}:{stack.tag}"
    container = Container(docker("run", "--detach", image, *COMMANDS[name]).stdout.strip())
    try:
        wait_until(lambda: moment(container))
        assert stop(container) != KILLED, container.logs()
    finally:
        docker("rm", "--force", "--volumes", container.id)


def test_a_stopped_driver_leaves_whole_files_and_its_exit_code(services: Stack) -> None:
    before = services.result_folders()
    with services.background_eval("++num_repeats=50") as driver:
        (folder,) = wait_until(lambda: services.result_folders() - before, 60)
        results = folder / "rollouts.jsonl"
        wait_until(lambda: results.stat().st_size > 0, 60)
        assert stop(driver) == INTERRUPTED, driver.logs()
    assert results.read_bytes().endswith(b"\n")
    assert 0 < len(rows(results)) < 200 * 50


def test_services_stopped_under_load_end_by_themselves(services: Stack) -> None:
    before = services.result_folders()
    with services.background_eval("++num_repeats=50") as driver:
        (folder,) = wait_until(lambda: services.result_folders() - before, 60)
        wait_until(lambda: (folder / "rollouts.jsonl").stat().st_size > 0, 60)
        for container in [each for name in ("resources", "env-bundle", "head") for each in services.containers(name)]:
            assert stop(container) == 0, container.logs()
        assert stop(driver) != KILLED, driver.logs()
