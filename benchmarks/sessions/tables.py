"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile by linear interpolation; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a Markdown table; every row has the first one's columns."""
    columns = list(rows[0])
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(row[at]) for row in cells)) for at, column in enumerate(columns)]
    print(f"\n## {title}\n")
    print("| " + " | ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)) + " |")
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for row in cells:
        print("| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |", flush=True)


def save(path: Path, name: str, rows: Sequence[Mapping[str, Any]], checks: Mapping[str, bool]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    document = {"benchmark": name, "rows": list(rows), "checks": dict(checks)}
    (path / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def judge(checks: Mapping[str, bool]) -> bool:
    """Print each check; True where all hold."""
    for what, holds in checks.items():
        print(f"{'ok  ' if holds else 'MISS'} {what}")
    return all(checks.values())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
