"""The ways in which the driver's collector is set in a simulation, to be compared in one sitting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A name, the driver's settings, and whether the collector is held at Python's own whatever the driver asks."""

    name: str
    overrides: tuple[str, ...] = ()
    hold_gc: bool = False


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("default", hold_gc=True),
        Variant("tuned"),
        Variant("off", ("++driver_gc_freeze=false", "++driver_gc_thresholds=null")),
    )
}
"""`default` is Python's collector, untouched; `tuned` the driver as it comes; `off` the driver told to leave the
collector alone, which must be the same as `default`."""
