"""A simulation's outcome as a JSON document, with all that is needed to make it again and to draw it anew."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rollgym.driver.simulate.figures import RunFigures
from rollgym.driver.simulate.marks import Mark, median_of
from rollgym.driver.simulate.measured import Measured
from rollgym.driver.simulate.settings import SimulationSettings

SCHEMA_VERSION = 1


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": list(os.getloadavg()),
    }


def report(
    settings: SimulationSettings,
    runs: Sequence[Measured],
    built_in: Measured | None,
    marks: Sequence[Mark],
    verdict: str | None,
) -> dict[str, Any]:
    """Everything that was measured. Times are in the unit of their name, shares from 0 to 1."""
    names = list(dict.fromkeys(run.figures.name for run in runs))
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "settings": settings_json(settings),
        "machine": machine(),
        "runs": [run_json(run) for run in runs],
        "medians": {
            name: figures_json(median_of([run.figures for run in runs if run.figures.name == name])) for name in names
        },
        "marks": [asdict(mark) for mark in marks],
    }
    if built_in is not None:
        document["built_in_agent"] = run_json(built_in)
    if verdict is not None:
        document["ceiling"] = verdict
    return document


def settings_json(settings: SimulationSettings) -> dict[str, Any]:
    values = settings.model_dump(exclude={"out", "json_"})
    return {name: str(value) if name.endswith("latency") else value for name, value in values.items()}


def run_json(run: Measured) -> dict[str, Any]:
    """One run: its figures, its lag over time, each of its collections."""
    return {
        **figures_json(run.figures),
        "lag_over_time": [{"at_s": at_s, "max_ms": value} for at_s, value in run.lag],
        "pauses": [
            {"at_s": round(at_s, 4), "generation": generation, "ms": round(pause_ms, 3)}
            for at_s, generation, pause_ms in run.pauses
        ],
    }


def figures_json(figures: RunFigures) -> dict[str, Any]:
    values = asdict(figures)
    values |= {
        "collections": figures.collections,
        "pause_sum_ms": figures.pause_sum_ms,
        "pause_max_ms": figures.pause_max_ms,
    }
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}
