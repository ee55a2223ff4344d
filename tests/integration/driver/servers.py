"""Head, env-bundle and resources as processes, started together and registered; they serve a module's tests."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from plain_http import PLAIN
from processes import RunningCommand, running_sync
from waiting import wait_until

ENVIRONMENTS = ("gridsim", "wordle", "echo")


@dataclass(frozen=True)
class Stack:
    """Three running servers."""

    head: RunningCommand
    bundle: RunningCommand
    resources: RunningCommand

    def sessions(self) -> int:
        """Episodes that env-bundle holds right now."""
        answer = httpx.get(f"{self.bundle.url}/metrics", trust_env=False, verify=PLAIN).text
        return int(float(_value(answer, "rollgym_env_slots_in_use")))


def _value(exposition: str, name: str) -> str:
    return next(line.rsplit(" ", 1)[1] for line in exposition.splitlines() if line.startswith(name))


@contextlib.contextmanager
def running_stack(*resources_flags: str) -> Iterator[Stack]:
    """The servers of `gym eval run --no-serve`, ready."""
    with (
        running_sync("gym-head", "serve", "--port", "0", "--database", ":memory:") as head,
        running_sync("gym-env-bundle", "serve", "--port", "0", "--head", head.url) as bundle,
    ):
        flags = [word for name in ENVIRONMENTS for word in ("--env", f"{name}={bundle.url}/{name}")]
        words = ("gym-resources", "serve", "--port", "0", "--head", head.url, *flags, *resources_flags)
        with running_sync(*words) as resources:
            wait_until(lambda: _registered(head.url) >= {"resources", "env-bundle"})
            yield Stack(head, bundle, resources)


def _registered(head_url: str) -> set[str]:
    listing = httpx.get(f"{head_url}/v1/servers", trust_env=False, verify=PLAIN).json()["servers"]
    return {server["name"] for server in listing}
