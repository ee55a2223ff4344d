"""The `gym-head` command: `gym-head serve` runs a head until SIGTERM or SIGINT."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rollgym.common.errors import ConfigurationError
from rollgym.common.service import run_service
from rollgym.common.settings import parse_settings
from rollgym.common.suggestions import did_you_mean
from rollgym.head.app import head_service
from rollgym.head.run_store import RunStore
from rollgym.head.settings import HeadSettings

USAGE = """usage: gym-head serve [--host HOST] [--port PORT] [--database FILE] ...

  serve   registry of servers, history of runs, and their web page (gym-head serve --help lists every flag)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 after a graceful stop, 2 for a mistake on the command line or an unusable file."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if words[:1] != ["serve"]:
        hint = did_you_mean(words[0], ["serve"]) if words else ""
        print(f"gym-head: {f'unknown command {words[0]}{hint}' if words else 'a command is needed'}", file=sys.stderr)
        print(USAGE, end="", file=sys.stderr)
        return 2
    settings = parse_settings(
        HeadSettings, words[1:], prog="gym-head serve", description="Registry of servers, history of runs, web page."
    )
    try:
        service = head_service(settings)
        # Tried before anything is bound: a file that cannot be used is a person's mistake, told in one line.
        RunStore(settings.database_path()).close()
    except ConfigurationError as error:
        print(f"gym-head: {error.message}", file=sys.stderr)
        return 2
    return run_service(service)


if __name__ == "__main__":
    raise SystemExit(main())
