"""A whole simulation: the variants in turn, or the climb to the ceiling, then tables, JSON and a picture."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rollgym.driver.simulate import ceiling
from rollgym.driver.simulate.built_in import check_installed, measure_built_in
from rollgym.driver.simulate.figures import RunFigures
from rollgym.driver.simulate.inputs import write_tasks
from rollgym.driver.simulate.marks import Mark, marks_of
from rollgym.driver.simulate.measured import Measured, measure_agents
from rollgym.driver.simulate.picture import picture
from rollgym.driver.simulate.report import report
from rollgym.driver.simulate.settings import SimulationSettings
from rollgym.driver.simulate.tables import built_in_table, capacity_table, ceiling_table
from rollgym.driver.simulate.variants import VARIANTS

Say = Callable[[str], None]


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class Simulation:
    """One simulation. `run` may be called once; it takes as long as its runs do."""

    settings: SimulationSettings
    say: Say = _to_stderr
    runs: list[Measured] = field(default_factory=list)
    built_in: Measured | None = None
    marks: list[Mark] = field(default_factory=list)
    verdict: str | None = None

    def run(self) -> None:
        """Measure everything that the settings ask for.

        Raises SimulationError where a part of it fails; what was measured until then stays and can be shown.
        """
        settings = self.settings
        with_built_in = settings.built_in_rollouts > 0 and not (settings.ceiling or settings.retain)
        if with_built_in:
            check_installed()
        settings.out.mkdir(parents=True, exist_ok=True)
        try:
            self._measure(with_built_in)
        finally:
            self._judge()
            with contextlib.suppress(OSError):  # not empty: artifacts that were to be kept
                (settings.out / "runs").rmdir()

    def _measure(self, with_built_in: bool) -> None:
        settings = self.settings
        with tempfile.TemporaryDirectory(prefix="inputs-", dir=settings.out) as folder:
            inputs = Path(folder) / "tasks.jsonl"
            write_tasks(
                inputs,
                tasks=settings.tasks,
                messages=settings.messages,
                characters=settings.characters,
                seed=settings.seed,
            )
            if settings.ceiling:
                self._climb(inputs)
            else:
                self._vary(inputs)
        if with_built_in:
            self.say(f"built-in agent: {settings.built_in_rollouts:,} rollouts of {settings.turns} turns")
            self.built_in = measure_built_in(settings, settings.out / "runs" / "built-in")

    def _vary(self, inputs: Path) -> None:
        settings = self.settings
        for number in range(1, settings.rounds + 1):
            # Each round begins with another variant, so that none always meets the machine as the others left it.
            turn = (number - 1) % len(settings.variants)
            for name in (*settings.variants[turn:], *settings.variants[:turn]):
                self.say(f"{name}, round {number} of {settings.rounds}: {settings.rollouts:,} rollouts")
                folder = settings.out / "runs" / f"{name}-{number}"
                run = measure_agents(settings, VARIANTS[name], number, inputs, folder, repeats=settings.repeats)
                self.runs.append(run)
        self.runs.sort(key=lambda run: (settings.variants.index(run.figures.name), run.figures.round))

    def _climb(self, inputs: Path) -> None:
        settings = self.settings

        def measure(concurrency: int) -> RunFigures:
            repeats = ceiling.repeats_for(concurrency, tasks=settings.tasks, most=settings.repeats)
            self.say(f"{concurrency:,} in flight: {settings.tasks * repeats:,} rollouts")
            at_step = settings.model_copy(update={"concurrency": concurrency})
            folder = settings.out / "runs" / f"ceiling-{concurrency}"
            run = measure_agents(at_step, VARIANTS["tuned"], 1, inputs, folder, repeats=repeats)
            self.runs.append(run)
            return run.figures

        ceiling.climb(ceiling.steps(settings.ceiling_from, settings.concurrency), measure)
        self.verdict = ceiling.verdict([run.figures for run in self.runs])

    def _judge(self) -> None:
        measured = [*self.runs, *([self.built_in] if self.built_in else [])]
        self.marks = marks_of([run.figures for run in measured], retained=self.settings.retain)

    @property
    def agrees(self) -> bool:
        return not any(run.figures.disagreements for run in [*self.runs, *([self.built_in] if self.built_in else [])])

    def text(self) -> str:
        """Tables, verdict and marks, for a person."""
        settings, figures = self.settings, [run.figures for run in self.runs]
        parts = [self._heading()]
        parts.append(ceiling_table(figures) if settings.ceiling else capacity_table(figures))
        if self.verdict is not None:
            parts.append(self.verdict)
        if (late := self._late()) is not None:
            parts.append(late)
        if self.built_in is not None:
            parts.append(built_in_table(self.built_in.figures))
        parts.append("\n".join(map(str, self.marks)))
        return "\n\n".join(parts)

    def _heading(self) -> str:
        settings = self.settings
        loop = f"open loop, {settings.rate:g} rollouts/s offered" if settings.rate else "closed loop"
        return (
            f"{settings.tasks} tasks × {settings.repeats} repeats, {settings.concurrency:,} in flight, {loop}, "
            f"{settings.messages} messages of {settings.characters:,} characters, agents take {settings.latency} s, "
            f"results {'kept as objects' if settings.retain else 'written and let go'}"
        )

    def _late(self) -> str | None:
        late = [run.figures.late_max_s for run in self.runs if run.figures.late_max_s is not None]
        if not late:
            return None
        slowest = min(run.figures.rollouts_per_s for run in self.runs)
        return (
            f"Open loop: rollouts came at most {max(late):.2f} s after their time; the slowest run had "
            f"{slowest:,.1f} rollouts/s of {self.settings.rate:g} offered."
        )

    def write(self) -> tuple[Path, Path]:
        """Write capacity.json and capacity.svg; returns where."""
        document, drawing = self.settings.out / "capacity.json", self.settings.out / "capacity.svg"
        document.write_text(self.json_text())
        drawing.write_text(picture(self._heading(), self._worst_of_each()))
        return document, drawing

    def json_text(self) -> str:
        document = report(self.settings, self.runs, self.built_in, self.marks, self.verdict)
        return json.dumps(document, indent=1, default=str) + "\n"

    def _worst_of_each(self) -> list[Measured]:
        """Of each variant, or step, the run whose loop lagged longest: the picture flatters nobody."""
        worst: dict[tuple[str, int], Measured] = {}
        for run in self.runs:
            key = (run.figures.name, run.figures.concurrency)
            if key not in worst or run.figures.lag_max_ms > worst[key].figures.lag_max_ms:
                worst[key] = run
        return list(worst.values())
