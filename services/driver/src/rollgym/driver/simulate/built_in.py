"""The row of the built-in agent: driver, model endpoint, resources and environments, each in a process of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from rollgym.common.tls import tls_context
from rollgym.driver.simulate.agreement import Told, disagreements
from rollgym.driver.simulate.driver_run import DriverRun, run_measured
from rollgym.driver.simulate.inputs import BUILT_IN_ENV, write_tasks
from rollgym.driver.simulate.load_watch import LoadWatch
from rollgym.driver.simulate.measured import Measured, emptied, measured
from rollgym.driver.simulate.processes import (
    START_TIMEOUT_S,
    ServerProcess,
    SimulationError,
    module_command,
    service_command,
    serving,
)
from rollgym.driver.simulate.settings import SimulationSettings

SERVICES = ("gym-head", "gym-env-bundle", "gym-resources")


@dataclass(frozen=True)
class Stack:
    """What a run of the built-in agent meets."""

    head: ServerProcess
    model: ServerProcess
    resources: ServerProcess
    env_bundle: ServerProcess

    @property
    def servers(self) -> list[ServerProcess]:
        return [self.head, self.model, self.resources, self.env_bundle]


def check_installed() -> None:
    """Raise SimulationError, naming the missing one, unless every service of the row is there."""
    for name in SERVICES:
        service_command(name)


@contextlib.contextmanager
def stack_of(settings: SimulationSettings, folder: Path) -> Iterator[Stack]:
    """The servers, registered and ready."""
    model = module_command(
        "model_stub",
        *("--turns", str(settings.turns), "--latency", str(settings.model_latency), "--seed", str(settings.seed)),
    )
    with contextlib.ExitStack() as stack:
        head_command = service_command("gym-head", "--database", str(folder / "head.sqlite"))
        head = stack.enter_context(serving("head", head_command))
        env_bundle = stack.enter_context(serving("env-bundle", service_command("gym-env-bundle")))
        env = f"{BUILT_IN_ENV}={env_bundle.url}/{BUILT_IN_ENV}"
        resources_command = service_command("gym-resources", "--head", head.url, "--env", env)
        resources = stack.enter_context(serving("resources", resources_command))
        _wait_registered(head.url)
        yield Stack(head, stack.enter_context(serving("model", model)), resources, env_bundle)


def measure_built_in(settings: SimulationSettings, folder: Path) -> Measured:
    """Run the driver once with its own agent, `turns` model calls a rollout. Raises SimulationError."""
    rollouts = settings.built_in_rollouts
    tasks = min(settings.tasks, rollouts)
    repeats = max(1, rollouts // tasks)
    with emptied(folder, keep=settings.keep), stack_of(settings, folder) as stack:
        inputs = folder / "tasks.jsonl"
        write_tasks(
            inputs,
            tasks=tasks,
            messages=settings.messages,
            characters=settings.characters,
            seed=settings.seed,
            built_in=True,
        )
        model = (
            "++policy.kind=openai-responses",
            "++policy.model=simulated",
            f"++policy.base_url={stack.model.url}/v1",
        )
        run = DriverRun(
            head_url=stack.head.url,
            inputs=inputs,
            output=folder / "rollouts.jsonl",
            repeats=repeats,
            concurrency=settings.concurrency,
            overrides=(*model, f"++max_steps={settings.turns + 1}", *settings.overrides),
        )
        with LoadWatch(stack.servers) as load:
            end = run_measured(run.words(), timeout_s=settings.timeout_s)
        stat = stack.model.stat()
        if stat["first_call_at"] is None:
            raise SimulationError(f"the driver exited {end.exit_code} without a model call: {end.errors}")
        disagreeing = disagreements(Told(tasks * repeats, end.exit_code, end.summary(), run.paths))
    return measured(
        end.seen,
        (stat["first_call_at"], stat["last_answer_at"]),
        load,
        name="built-in agent",
        round=1,
        concurrency=settings.concurrency,
        rollouts=tasks * repeats,
        steady_rollouts_per_s=0.0,
        peak_in_flight=stat["peak_in_flight"],
        model_calls=stat["answered"],
        disagreements=tuple(disagreeing),
    )


def _wait_registered(head_url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        answer = httpx.get(f"{head_url}/v1/servers", timeout=10.0, trust_env=False, verify=tls_context(head_url))
        servers = answer.json()["servers"]
        if any(server["server_type"] == "resources_servers" for server in servers):
            return
        time.sleep(0.05)
    raise SimulationError("the resources server did not register with the head")
