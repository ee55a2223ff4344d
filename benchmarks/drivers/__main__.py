"""Measure the driver beside the published nemo-gym 0.7, in one sitting: the same agents, the same probe, in turn.

    python -m benchmarks.drivers --peer-venv VENV        (VENV made by benchmarks/drivers/setup_peer.sh VENV)

Without --peer-venv ours is measured alone. Everything stays on loopback. Exit code 1 where a mark is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.drivers.comparison import CONDITIONS, SATURATED, condition_table, marks, medians
from benchmarks.drivers.programs import OURS, Outcome, Program, measure, programs

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.simulate.inputs import write_tasks
from rollgym.driver.simulate.latency import Latency
from rollgym.driver.simulate.marks import Mark
from rollgym.driver.simulate.measured import emptied
from rollgym.driver.simulate.processes import SimulationError
from rollgym.driver.simulate.report import figures_json, machine
from rollgym.driver.simulate.settings import SimulationSettings

Outcomes = dict[tuple[str, str], list[Outcome]]


def flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.drivers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--peer-venv", type=Path, help="virtual environment with nemo-gym 0.7")
    parser.add_argument("--conditions", nargs="+", choices=list(CONDITIONS), default=list(CONDITIONS))
    parser.add_argument("--tasks", type=_count, default=64)
    parser.add_argument("--repeats", type=_count, default=64, help="rollouts of each task")
    parser.add_argument("--concurrency", type=_count, default=1024, help="rollouts in flight")
    parser.add_argument("--messages", type=_count, default=80, help="history messages of 2,000 characters")
    parser.add_argument(
        "--rounds",
        type=_count,
        default=2,
        help="runs of each program in each condition, in turn; the tables show medians",
    )
    parser.add_argument("--longer", type=_count, metavar="N", help="one more run of ours, N repeats: memory")
    parser.add_argument("--profile", action="store_true", help="let nemo-gym's `gym eval profile` read our results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout-s", type=_seconds, default=600.0, help="seconds that one run may take")
    parser.add_argument("--out", type=Path, default=Path("results/drivers"), help="folder for drivers.json")
    options = parser.parse_args(argv)
    if options.longer and SATURATED not in options.conditions:
        parser.error(f"--longer is compared with the {SATURATED} condition: name it with --conditions, too")
    if options.profile and options.peer_venv is None:
        parser.error("--profile takes --peer-venv")
    if options.peer_venv is not None and not (options.peer_venv / "bin" / "python").exists():
        parser.error(f"no Python in {options.peer_venv}: make it with benchmarks/drivers/setup_peer.sh")
    if options.peer_venv is not None and not list(options.peer_venv.glob("lib/python*/site-packages/nemo_gym")):
        parser.error(f"no nemo-gym in {options.peer_venv}: make it with benchmarks/drivers/setup_peer.sh")
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out: {options.out} is a file, not a folder")
    return options


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"takes 1 or more, not {text}")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"takes more than 0, not {text}")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    options = flags(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="runs-", dir=options.out) as folder:
            outcomes, found = _compare(options, Path(folder))
    except SimulationError as error:
        print(f"benchmarks.drivers: {error.message}", file=sys.stderr)
        return 1
    _show(options, outcomes, found)
    _write(options, outcomes, found)
    return 0 if all(mark.holds for mark in found) else 1


def _compare(options: argparse.Namespace, folder: Path) -> tuple[Outcomes, list[Mark]]:
    """Every program in every condition, round by round, the programs in turn."""
    inputs = folder / "tasks.jsonl"
    write_tasks(inputs, tasks=options.tasks, messages=options.messages, characters=2000, seed=options.seed)
    peer = None if options.peer_venv is None else str(options.peer_venv / "bin" / "python")
    compared = programs(sys.executable, peer)
    outcomes: Outcomes = {}
    profiled: list[Mark] = []
    for condition in options.conditions:
        settings = _settings(options, condition)
        for number in range(1, options.rounds + 1):
            for program in compared[number % len(compared) :] + compared[: number % len(compared)]:
                _say(f"{condition}, {program.name}, round {number} of {options.rounds}: {settings.rollouts:,} rollouts")
                with emptied(folder / "run", keep=False):
                    outcome = measure(program, settings, number, inputs, folder / "run")
                    if options.profile and program.name == OURS and not profiled:
                        profiled.append(_profile(options.peer_venv, folder / "run" / "rollouts.jsonl"))
                outcomes.setdefault((condition, program.name), []).append(outcome)
    longer = _longer(options, compared, inputs, folder) if options.longer else None
    return outcomes, [*marks(outcomes, longer), *profiled]


def _settings(options: argparse.Namespace, condition: str) -> SimulationSettings:
    return SimulationSettings(
        tasks=options.tasks,
        repeats=options.repeats,
        concurrency=options.concurrency,
        messages=options.messages,
        latency=Latency.parse(CONDITIONS[condition].latency),
        seed=options.seed,
        timeout_s=options.timeout_s,
    )


def _longer(options: argparse.Namespace, compared: Sequence[Program], inputs: Path, folder: Path) -> Outcome:
    settings = _settings(options, SATURATED).model_copy(update={"repeats": options.longer})
    ours = next(program for program in compared if program.name == OURS)
    _say(f"{OURS}, longer: {settings.rollouts:,} rollouts")
    with emptied(folder / "run", keep=False):
        return measure(ours, settings, 1, inputs, folder / "run")


def _profile(peer_venv: Path, results: Path) -> Mark:
    """Whether the peer's own tool reads our rows without complaint."""
    paths = ArtifactPaths(results)
    command = [str((peer_venv / "bin" / "gym").absolute()), "eval", "profile"]
    command += ["--inputs", str(paths.materialized_inputs.resolve()), "--rollouts", str(paths.results.resolve())]
    ended = subprocess.run(  # in the folder that is emptied afterwards: it leaves logs where it runs
        command, cwd=results.parent, capture_output=True, text=True, timeout=600, check=False
    )
    said = (ended.stderr or ended.stdout).strip().splitlines()
    seen = "it does" if ended.returncode == 0 else f"exit code {ended.returncode}: {said[-1] if said else 'no word'}"
    return Mark("nemo-gym's `gym eval profile` reads our results", seen, ended.returncode == 0)


def _show(
    options: argparse.Namespace, outcomes: Mapping[tuple[str, str], Sequence[Outcome]], found: Sequence[Mark]
) -> None:
    for condition in options.conditions:
        latency = CONDITIONS[condition].latency
        print(f"{condition}: agents take {latency} s, {options.concurrency:,} in flight\n")
        print(condition_table(outcomes, condition) + "\n")
    print("\n".join(map(str, found)))


def _write(
    options: argparse.Namespace, outcomes: Mapping[tuple[str, str], Sequence[Outcome]], found: Sequence[Mark]
) -> None:
    path = options.out / "drivers.json"
    document = {
        "machine": machine(),
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "runs": [
            {"condition": condition, "rows_on_disk": outcome.rows, **figures_json(outcome.figures)}
            for (condition, _), each in outcomes.items()
            for outcome in each
        ],
        "medians": [
            {"condition": condition, **figures_json(figures)} for (condition, _), figures in medians(outcomes).items()
        ],
        "marks": [{"what": mark.what, "seen": mark.seen, "holds": mark.holds} for mark in found],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    _say(f"wrote {path}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
