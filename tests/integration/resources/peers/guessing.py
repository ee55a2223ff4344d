"""Runs in the peer's own virtual environment: a plain environment"""

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    number: int


class Hint(Observation):
    hint: str = ""


class Guessing(Environment):
    """Guess the seed."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: object) -> Hint:
        self._number = seed or 0
        return Hint(hint="guess")

    def step(self, action: Guess, timeout_s: float | None = None, **_: object) -> Hint:
        if action.number == 13:
            raise ValueError("thirteen is not allowed")
        right = action.number == self._number
        return Hint(hint="right" if right else "wrong", reward=1.0 if right else 0.0, done=right)

    @property
    def state(self) -> State:
        return State()
