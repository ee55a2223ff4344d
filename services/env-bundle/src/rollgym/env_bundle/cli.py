"""The command ``gym-env-bundle``."""

import sys

from rollgym.common.command import service_command
from rollgym.env_bundle.app import create_service
from rollgym.env_bundle.settings import EnvBundleSettings

PROG = "gym-env-bundle"
DESCRIPTION = "A mock OpenEnv server: several environments on one port, faults on demand."


def main() -> int:
    """Serve until told to stop."""
    return service_command(
        sys.argv[1:], prog=PROG, description=DESCRIPTION, settings=EnvBundleSettings, service=create_service
    )
