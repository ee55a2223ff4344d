"""One stack for the tests of this folder: built once, always torn down."""

import secrets
from collections.abc import Iterator

import pytest

from compose.stack import IMAGES, SERVICES, Stack, docker
from waiting import wait_until

REPLICAS = 3
OWNER = 4321


@pytest.fixture(scope="session")
def tag() -> Iterator[str]:
    """The images' tag of this test session, also the beginning of its projects' names."""
    tag = f"rollgym-test-{secrets.token_hex(3)}"
    yield tag
    docker("rmi", "--force", *(f"rollgym/{name}:{tag}" for name in IMAGES), check=False)


@pytest.fixture(scope="session")
def stack(tag: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A built stack with nothing started."""
    stack = Stack(tmp_path_factory.mktemp("clone"), tag, tag, ROLLGYM_UID=OWNER, ROLLGYM_GID=OWNER)
    try:
        stack.compose("build")
        yield stack
    finally:
        stack.remove()


@pytest.fixture(scope="session")
def first_eval(stack: Stack) -> int:
    """`docker compose up -d` with three replicas and Prometheus; the exit code of the driver that it started."""
    stack.compose("up", "--detach", "--scale", f"resources={REPLICAS}", *SERVICES, "driver", "prometheus")
    return stack.container("driver").wait_exit_code()


@pytest.fixture
def services(stack: Stack, first_eval: int) -> Stack:
    """The stack after that eval, every service healthy, whatever the test before stopped."""
    stack.compose("up", "--detach", "--no-recreate", "--scale", f"resources={REPLICAS}", *SERVICES, "prometheus")
    long_running = [each for name in (*SERVICES, "prometheus") for each in stack.containers(name)]
    wait_until(lambda: {each.health for each in long_running} == {"healthy"}, 60, pause_s=0.25)
    return stack
