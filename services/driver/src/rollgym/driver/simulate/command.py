"""`gym simulate capacity`: its flags, made from the settings, and what it prints."""

from __future__ import annotations

import signal
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace

from pydantic.fields import FieldInfo

from rollgym.driver.simulate.capacity import Simulation
from rollgym.driver.simulate.processes import SimulationError
from rollgym.driver.simulate.settings import SimulationSettings, parse_simulation

_DESCRIPTION = """\
Load the real driver with simulated agents and measure it from outside: its collector, its loop, its CPU and memory.

Every run is `gym eval run --no-serve` in a process of its own; agents, model endpoint and resources are processes, too,
reached over HTTP on loopback. Exit code 0; 1 where exit codes, files and counts disagree, or a part failed, or with
--check a mark was missed; 2 for a wrong flag."""


def define_simulate(simulate: ArgumentParser) -> None:
    """Say of `gym simulate` what there is to simulate."""
    which = simulate.add_subparsers(title="commands", metavar="COMMAND", required=True)
    capacity = which.add_parser(
        "capacity", help="collector, loop, CPU and memory, as a table", description=_DESCRIPTION
    )
    _add_flags(capacity)
    capacity.set_defaults(run=_capacity)


def _add_flags(parser: ArgumentParser) -> None:
    for name, field in SimulationSettings.model_fields.items():
        flag = (field.alias or name).replace("_", "-")
        if name == "overrides":
            parser.add_argument(name, nargs="*", metavar="key=value", help=field.description)
        elif field.annotation is bool:
            parser.add_argument(f"--{flag}", dest=field.alias or name, action="store_true", help=field.description)
        else:
            parser.add_argument(f"--{flag}", dest=name, default=SUPPRESS, metavar=_metavar(field), help=_help(field))


def _metavar(field: FieldInfo) -> str:
    return "N" if field.annotation in (int, float) else "WHAT"


def _help(field: FieldInfo) -> str:
    default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    return f"{field.description} ({default})".replace("%", "%%")


def _capacity(arguments: Namespace) -> int:
    values = {name: value for name, value in vars(arguments).items() if name in _NAMES}
    settings = parse_simulation(values)
    simulation = Simulation(settings)
    before = signal.signal(signal.SIGTERM, _leave)
    failed = False
    try:
        simulation.run()
    except SimulationError as error:
        print(f"gym: {error.message}", file=sys.stderr)
        failed = True
    finally:
        signal.signal(signal.SIGTERM, before)
    if not simulation.runs:
        return 1
    written = simulation.write()
    print(simulation.json_text() if settings.json_ else simulation.text())
    print("\n".join(f"wrote {path}" for path in written), file=sys.stderr)
    missed = settings.check and not all(mark.holds for mark in simulation.marks)
    return 1 if failed or missed or not simulation.agrees else 0


_NAMES = {field.alias or name for name, field in SimulationSettings.model_fields.items()}


def _leave(number: int, _: object) -> None:
    """SIGTERM ends the simulation in order: every process that it started is stopped."""
    raise SystemExit(128 + number)
