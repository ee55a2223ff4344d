"""The command ``gym-env-bundle``."""

import sys

from rollgym.common.command import service_command
from rollgym.common.errors import ConfigurationError
from rollgym.env_bundle.app import create_service
from rollgym.env_bundle.settings import EnvBundleSettings

PROG = "gym-env-bundle"
DESCRIPTION = "A mock OpenEnv server: several environments on one port, faults on demand."


def main() -> int:
    """Serve until told to stop; a person's mistake is one line and exit code 2."""
    try:
        return service_command(
            sys.argv[1:], prog=PROG, description=DESCRIPTION, settings=EnvBundleSettings, service=create_service
        )
    except ConfigurationError as error:
        print(f"{PROG}: {error.message}", file=sys.stderr)
        return 2
