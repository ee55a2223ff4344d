"""The command `gym-resources`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rollgym.common.command import service_command
from rollgym.resources.app import create_service
from rollgym.resources.settings import ResourcesSettings

DESCRIPTION = "Owns sessions of OpenEnv environment servers and serves them over the resources-server HTTP API."


def main(argv: Sequence[str] | None = None) -> int:
    return service_command(
        sys.argv[1:] if argv is None else argv,
        prog="gym-resources",
        description=DESCRIPTION,
        settings=ResourcesSettings,
        service=create_service,
    )


if __name__ == "__main__":
    sys.exit(main())
