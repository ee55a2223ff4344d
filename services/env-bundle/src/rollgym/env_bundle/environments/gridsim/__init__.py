"""One day of a small power grid: the day, the plants, the score, and the environment over them."""

from rollgym.env_bundle.environments.gridsim.environment import GridSim

__all__ = ["GridSim"]
