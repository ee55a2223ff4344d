"""Tables and lines as plain text for a terminal of 100 columns; what stands in them is not owned here."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

WIDTH = 100


class TitledTable(Table):
    """A table without borders; its title takes the width of the terminal, not that of the table."""

    def __init__(self, title: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False)
        self._heading = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self._heading)
        yield from super().__rich_console__(console, options)


def table(title: str, *columns: str, rows: Iterable[Sequence[str]] = (), left: int = 1) -> Table:
    """A table whose first `left` columns are text and whose others are numbers."""
    made = TitledTable(title)
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < left else "right")
    for row in rows:
        made.add_row(*row)
    return made


def as_text(parts: Iterable[RenderableType]) -> str:
    """Rich's rendering of the parts, without color, trailing blanks or wrapping of plain lines."""
    shown = Console(file=io.StringIO(), width=WIDTH, color_system=None, highlight=False, emoji=False, markup=False)
    for part in parts:
        shown.print(part, soft_wrap=isinstance(part, str))
    assert isinstance(shown.file, io.StringIO)
    return "\n".join(line.rstrip() for line in shown.file.getvalue().splitlines())
