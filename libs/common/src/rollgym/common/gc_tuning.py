"""The garbage collector of one process: its settings, their application, and what it then does.

Freezing moves everything that start-up built out of the collector's sight; higher thresholds make collections
rare. Both belong to a process, so only a process's own entry point calls `tune_gc`, never a library.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

GENERATIONS = 3
LARGEST_THRESHOLD = 2**31 - 1
"""More does not fit where the collector keeps it."""


def _valid_thresholds(value: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not 1 <= len(value) <= GENERATIONS:
        raise ValueError("takes 1 to 3 numbers, one a generation, or null for Python's own")
    if any(threshold < 1 for threshold in value):
        raise ValueError("each threshold must be 1 or more: 0 would turn collection off")
    if any(threshold > LARGEST_THRESHOLD for threshold in value):
        raise ValueError(f"each threshold must be {LARGEST_THRESHOLD} or less")
    return value


def _numbers(value: Any) -> Any:
    if isinstance(value, list | tuple) and list(value) in ([None], ["null"]):
        return None  # how a flag's ``null`` arrives
    given = () if value is None else value
    if isinstance(given, str) or not isinstance(given, Sequence) or any(isinstance(each, bool) for each in given):
        raise ValueError("takes 1 to 3 whole numbers, for example [50000, 50, 100], or null for Python's own")
    return value


GcThresholds = Annotated[tuple[int, ...] | None, BeforeValidator(_numbers), AfterValidator(_valid_thresholds)]
"""1 to 3 thresholds for `gc.set_threshold`, each ≥ 1, or None for Python's own."""


class GcSettings(BaseModel):
    """How a process tunes its collector after start-up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    freeze: bool = Field(True, description="Collect once, then freeze what start-up built")
    thresholds: GcThresholds = Field((50_000, 50, 100), description="gc.set_threshold's numbers, or null")


@dataclass(frozen=True)
class GcState:
    """What the collector is set to: for the log, and for a test to compare."""

    gc_thresholds: tuple[int, ...]
    gc_frozen_objects: int
    gc_kind: str

    @classmethod
    def now(cls) -> GcState:
        version = ".".join(map(str, sys.version_info[:3]))
        kind = "generational" if sys.version_info < (3, 14) else "incremental"
        return cls(gc.get_threshold(), gc.get_freeze_count(), f"{kind}, Python {version}")


def tune_gc(settings: GcSettings) -> GcState:
    """Apply `settings` to this process: one full collection, then freeze, then thresholds. Call it once.

    Collecting first keeps garbage from being frozen for ever. From Python 3.14 on, generations are collected in
    steps and a third threshold has no meaning: it is passed on and ignored there.
    """
    if settings.freeze:
        gc.collect()
        gc.freeze()
    if settings.thresholds is not None:
        gc.set_threshold(*settings.thresholds)
    return GcState.now()


@dataclass
class GenerationTotals:
    """Collections of one generation since watching began: how many, their pauses in seconds, objects reclaimed."""

    collections: int = 0
    pause_sum_s: float = 0.0
    pause_max_s: float = 0.0
    reclaimed: int = 0


@dataclass
class GcWatch:
    """Counts this process's collections and pauses through `gc.callbacks`; a context manager.

    `on_pause(generation, seconds)` is called after each collection, on the thread that triggered it.
    """

    on_pause: Any = None
    totals: list[GenerationTotals] = field(default_factory=lambda: [GenerationTotals() for _ in range(GENERATIONS)])
    _started_at: float = 0.0

    def __enter__(self) -> GcWatch:
        gc.callbacks.append(self._on_collection)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._on_collection)

    @property
    def collections(self) -> int:
        return sum(total.collections for total in self.totals)

    @property
    def pause_sum_s(self) -> float:
        return sum(total.pause_sum_s for total in self.totals)

    @property
    def pause_max_s(self) -> float:
        return max(total.pause_max_s for total in self.totals)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started_at = time.perf_counter()
            return
        pause_s = time.perf_counter() - self._started_at
        total = self.totals[info["generation"]]
        total.collections += 1
        total.pause_sum_s += pause_s
        total.pause_max_s = max(total.pause_max_s, pause_s)
        total.reclaimed += info.get("collected", 0)
        if self.on_pause is not None:
            self.on_pause(info["generation"], pause_s)
