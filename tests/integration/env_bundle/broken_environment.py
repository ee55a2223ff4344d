"""An environment that cannot be made, for the bundle under test to load."""

from rollgym.env_bundle.environments.echo import Echo

REASON = "no licence"


class Broken(Echo):
    name = "broken"

    def __init__(self) -> None:
        raise RuntimeError(REASON)
