"""The numbers of many rollouts in flat arrays: ten bytes each, no object per rollout, however wide the rows are."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TypeAlias

MOST_FIELDS = 1000

Columns: TypeAlias = "dict[str, array[float]]"  # quoted: Python 3.11 cannot subscript array
"""Values by field name, in the order of the rows; a row without the field has no value there."""


class NumbersTable:
    """Rows of named numbers. Rows count from 0; a field that comes after the first thousand is left out, by name."""

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._fields: dict[str, int] = {}
        self._names: list[str] = []
        self._ends = array("Q")
        self._field_of = array("H")
        self._values = array("d")

    def __len__(self) -> int:
        return len(self._ends)

    def append(self, numbers: Mapping[str, float]) -> None:
        """Add a row."""
        for name, value in numbers.items():
            field = self._fields.get(name)
            if field is None:
                if len(self._names) >= MOST_FIELDS:
                    if len(self.left_out) < MOST_FIELDS:
                        self.left_out.add(name)
                    continue
                field = self._fields[name] = len(self._names)
                self._names.append(name)
            self._field_of.append(field)
            self._values.append(value)
        self._ends.append(len(self._values))

    def row(self, row: int) -> dict[str, float]:
        """The numbers of one row."""
        begin = self._ends[row - 1] if row else 0
        return {self._names[self._field_of[at]]: self._values[at] for at in range(begin, self._ends[row])}

    def columns(self, rows: Iterable[int] | None = None) -> Columns:
        """The columns of some rows, of all of them by default; fields without a value are absent."""
        columns: dict[int, array[float]] = {}
        for row in range(len(self)) if rows is None else rows:
            for at in range(self._ends[row - 1] if row else 0, self._ends[row]):
                columns.setdefault(self._field_of[at], array("d")).append(self._values[at])
        return {self._names[field]: columns[field] for field in sorted(columns)}

    def column(self, name: str) -> array[float]:
        """One column over all rows; empty where no row has the field."""
        field = self._fields.get(name)
        pairs = zip(self._field_of, self._values, strict=True)
        return array("d", (value for of, value in pairs if of == field))
