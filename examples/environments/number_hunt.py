"""A whole environment in one file: find a hidden number by halving.

    gym-env-bundle serve --environment examples/environments/number_hunt.py

An action is {"guess": 42}. The reward comes at the end: 1 for a hunt that needed no more tries than halving does, less
0.1 for each try more, 0 when the tries run out.
"""

import random
from typing import ClassVar

from pydantic import Field

from rollgym.env_bundle.environment import Action, Environment, EpisodeOver, NotReset, Observation, ResetArguments

HALVING_TRIES = 7  # enough for 1 to 100
TRIES = 12


class Guess(Action):
    guess: int = Field(ge=1, le=100, description="A number from 1 to 100")


class Hint(Observation):
    message: str
    tries_left: int


class NumberHunt(Environment[Guess]):
    name: ClassVar[str] = "number-hunt"
    description: ClassVar[str] = 'Find a number from 1 to 100 with {"guess": 42}; each answer says higher or lower.'
    action_type: ClassVar[type[Action]] = Guess
    observation_type: ClassVar[type[Observation]] = Hint

    def __init__(self) -> None:
        super().__init__()
        self._number, self._tries, self._over = 0, 0, False

    def reset(self, arguments: ResetArguments) -> Observation:
        self._number = 1 + int(random.Random(arguments.seed_or_drawn()).random() * 100)
        self._tries, self._over = 0, False
        return Hint(message="I think of a number from 1 to 100.", tries_left=TRIES)

    def step(self, action: Guess) -> Observation:
        if not self._number:
            raise NotReset
        if self._over:
            raise EpisodeOver
        self._tries += 1
        left = TRIES - self._tries
        if action.guess == self._number:
            self._over = True
            reward = round(1.0 - 0.1 * max(0, self._tries - HALVING_TRIES), 6)
            return Hint(message="Found.", tries_left=left, reward=reward, done=True)
        if left == 0:
            self._over = True
            return Hint(message=f"It was {self._number}.", tries_left=0, reward=0.0, done=True)
        return Hint(message="Higher." if action.guess < self._number else "Lower.", tries_left=left)
