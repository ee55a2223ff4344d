"""The programs that are compared, and one measured run of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.simulate.agent_fleet import AGENT_NAME
from rollgym.driver.simulate.agreement import lines_of
from rollgym.driver.simulate.driver_run import DriverRun, run_measured
from rollgym.driver.simulate.figures import RunFigures, steady_rate
from rollgym.driver.simulate.load_watch import LoadWatch
from rollgym.driver.simulate.measured import agent_servers, dispatch_times, measured
from rollgym.driver.simulate.processes import SimulationError
from rollgym.driver.simulate.settings import SimulationSettings

OURS, PEER, PEER_TUNED = "rollgym", "nemo-gym 0.7", "nemo-gym 0.7, tuned"

_PEER_DRIVER = Path(__file__).with_name("peer_driver.py")


@dataclass(frozen=True)
class Program:
    """A driver: its name, the Python that runs it, and its words for a run."""

    name: str
    python: str
    words: Callable[[DriverRun], Sequence[str]]


@dataclass(frozen=True)
class Outcome:
    """A run's figures, and how many different rollouts it left on disk."""

    figures: RunFigures
    rows: int


def programs(own_python: str, peer_python: str | None) -> list[Program]:
    """Ours, and the peer with Python's collector and with a tuned one, where there is a peer."""
    ours = Program(OURS, own_python, lambda run: run.words())
    if peer_python is None:
        return [ours]
    return [
        Program(PEER, peer_python, peer_words),
        Program(PEER_TUNED, peer_python, lambda run: [*peer_words(run), "--tuned"]),
        ours,
    ]


def peer_words(run: DriverRun) -> list[str]:
    flags = {
        "--agent-url": run.head_url,
        "--agent-name": AGENT_NAME,
        "--input": run.inputs,
        "--output": run.output,
        "--repeats": run.repeats,
        "--concurrency": run.concurrency,
    }
    return [str(_PEER_DRIVER), *(str(word) for flag in flags.items() for word in flag)]


def measure(program: Program, settings: SimulationSettings, number: int, inputs: Path, folder: Path) -> Outcome:
    """Run a program once against fresh agents; `folder` keeps its artifacts. Raises SimulationError."""
    output = folder / "rollouts.jsonl"
    with agent_servers(settings) as servers:
        run = DriverRun(servers[0].url, inputs, output, settings.repeats, settings.concurrency)
        with LoadWatch(servers) as load:
            end = run_measured(program.words(run), timeout_s=settings.timeout_s, python=program.python)
        if end.exit_code != 0:
            raise SimulationError(f"{program.name} exited {end.exit_code}: {end.errors}")
        stats = [server.stat() for server in servers]
        first_at, answered_at = dispatch_times(stats, end)
    seen = measured(
        end.seen,
        (first_at, max(answered_at)),
        load,
        name=program.name,
        round=number,
        concurrency=settings.concurrency,
        rollouts=settings.rollouts,
        steady_rollouts_per_s=steady_rate(answered_at),
        peak_in_flight=sum(stat["peak_in_flight"] for stat in stats),
    )
    rows = {key for key, _ in lines_of(ArtifactPaths(output).results)}
    return Outcome(seen.figures, len(rows))
