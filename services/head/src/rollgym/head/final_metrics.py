"""The driver's last metric values, handed over as a text exposition and kept as plain numbers.

Kept are Rollgym's own families only, renamed `rollgym_<x>` to `rollgym_run_<x>`, so that a finished run's numbers never
mix with those of a live process under the same name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rollgym.common.redaction import redact

OWN_PREFIX = "rollgym_"
RUN_PREFIX = "rollgym_run_"
MAX_SAMPLES = 1000


@dataclass(frozen=True)
class FinalMetric:
    """One sample of one family: `family` and `name` as renamed, `kind` as Prometheus calls it."""

    family: str
    kind: str
    help: str
    name: str
    labels: dict[str, str]
    value: float

    def to_wire(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "kind": self.kind,
            "help": self.help,
            "name": self.name,
            "labels": self.labels,
            "value": self.value,
        }

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> FinalMetric:
        return cls(**wire)


def parse_exposition(text: str | None) -> tuple[tuple[FinalMetric, ...], list[str]]:
    """The samples worth keeping, and what was wrong with the text: bad metrics never cost a run its record."""
    if not text:
        return (), []
    kept: list[FinalMetric] = []
    try:
        for family in text_string_to_metric_families(text):
            if not family.name.startswith(OWN_PREFIX):
                continue
            for sample in family.samples:
                if sample.name.endswith("_created") or not math.isfinite(sample.value):
                    continue
                kept.append(
                    FinalMetric(
                        family=_renamed(family.name),
                        kind=family.type,
                        help=family.documentation,
                        name=_renamed(sample.name),
                        labels={key: str(value) for key, value in redact(dict(sample.labels)).items()},
                        value=float(sample.value),
                    )
                )
    except (ValueError, KeyError, IndexError) as error:
        return (), [f"metrics_text is no Prometheus exposition and was left out: {str(error)[:200]}"]
    if len(kept) > MAX_SAMPLES:
        problem = f"metrics_text has {len(kept):,} samples; the first {MAX_SAMPLES:,} are kept"
        return tuple(kept[:MAX_SAMPLES]), [problem]
    return tuple(kept), []


def _renamed(name: str) -> str:
    return name if name.startswith(RUN_PREFIX) else RUN_PREFIX + name.removeprefix(OWN_PREFIX)
