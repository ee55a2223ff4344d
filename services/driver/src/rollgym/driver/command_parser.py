"""How the words of `gym` are read: mistakes said in one line, and each command defined when it is chosen."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

USAGE_EXIT = 2


class CommandParser(ArgumentParser):
    """Errors in one line and exit 2. A shortened flag is an unknown one: it would change its meaning with a new flag.

    What is parsed has the chosen command's own parser as `parser`, for what is still to be said of its words.

    `define` adds what the command takes. It is called once, when the command is chosen, so that what it imports costs
    no other command anything.
    """

    def __init__(self, *, define: Callable[[ArgumentParser], None] | None = None, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._define = define
        self.set_defaults(parser=self)

    def parse_known_args(  # type: ignore[override]  # argparse's own declaration is a set of overloads
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        define, self._define = self._define, None
        if define is not None:
            define(self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}\n{self.prog}: see {self.prog} --help", file=sys.stderr)
        raise SystemExit(USAGE_EXIT)
