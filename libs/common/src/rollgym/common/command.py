"""The command line of a service: ``gym-<service> serve [flags]``."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic_settings import BaseSettings

from rollgym.common.app import Service
from rollgym.common.errors import ConfigurationError
from rollgym.common.service import run_service
from rollgym.common.settings import parse_settings
from rollgym.common.suggestions import did_you_mean

SettingsT = TypeVar("SettingsT", bound=BaseSettings)


def service_command(
    argv: Sequence[str],
    *,
    prog: str,
    description: str,
    settings: type[SettingsT],
    service: Callable[[SettingsT], Service],
) -> int:
    """Run ``prog serve``; anything else teaches and exits 2 (``--help``: 0), a mistake ends with one line and 2."""
    usage = f"usage: {prog} serve [flags]\n\n{description}\n\nSee {prog} serve --help for the flags."
    if not argv:
        print(usage, file=sys.stderr)
        return 2
    if argv[0] in ("-h", "--help"):
        print(usage)
        return 0
    if argv[0] != "serve":
        print(f"{prog}: unknown command {argv[0]!r}{did_you_mean(argv[0], ['serve'])}\n{usage}", file=sys.stderr)
        return 2
    parsed = parse_settings(settings, argv[1:], prog=f"{prog} serve", description=description)
    try:
        described = service(parsed)
    except ConfigurationError as error:
        print(f"{prog}: {error.message}", file=sys.stderr)
        return 2
    return run_service(described)
