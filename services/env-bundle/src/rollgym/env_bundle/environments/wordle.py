"""The environment `wordle`: guess a five-letter word in six tries. No tools; rewards come step by step.

The rewards of an episode add up to at most 1: 0.1 for each position found for the first time, and on the winning try
0.5 less 0.08 for each try before it.
"""

from __future__ import annotations

import random
from typing import ClassVar

from pydantic import Field

from rollgym.env_bundle.environment import (
    Action,
    Environment,
    EpisodeOver,
    NotReset,
    Observation,
    ResetArguments,
    State,
)

LENGTH = 5
TRIES = 6
POSITION_REWARD = 0.1
WIN_REWARD = 0.5
LOST_PER_TRY = 0.08
RIGHT, MISPLACED, ABSENT = "G", "Y", "-"

_WORDS = """
about above actor adopt after again agent ahead album alert alike alive allow alone amber ample angle apple arena
aside audio awake basic beach begin being below birth black blame blend block board brain brand bread brick bring
brown brush build cabin cable candy cargo carry cause chain chair chalk charm chart chest chief child civic claim
clean clear clerk climb clock cloud coach coast color coral count court cover crane cream crown curve daily dance
depth diary dozen draft drama dream drive eager early earth elbow empty enjoy entry equal event exact extra faith
fancy fault fever field final flame fleet flora focus forge fresh front fruit giant glass globe grace grain grand
grape green group guide habit happy heart honey horse house human ideal image index inner ivory joint judge juice
knock label large laser layer lemon level light limit local logic lunar magic major maple march match medal metal
minor model money month motor mouse music night noble north novel ocean offer olive onion orbit order organ paint
panel paper party peace pearl phase piano pilot pixel place plant plate point power press pride prime print prize
"""
ANSWERS = tuple(_WORDS.split())


class Guess(Action):
    """One try."""

    guess: str = Field(description="A word of five letters, a to z")


class WordleObservation(Observation):
    """What a try told: G right, Y in the word but elsewhere, - not in the word."""

    message: str
    feedback: str | None = None
    tries_left: int = TRIES
    error: str | None = None


class WordleState(State):
    """The episode's state; the answer shows once the episode is over."""

    guesses: list[str] = Field(default_factory=list)
    answer: str | None = None


class Wordle(Environment[Guess]):
    """Guess the word."""

    name: ClassVar[str] = "wordle"
    description: ClassVar[str] = (
        'Guess a five-letter word in six tries with {"guess": "crane"}. The feedback marks each letter: G right, '
        "Y in the word but elsewhere, - not in the word."
    )
    action_type: ClassVar[type[Action]] = Guess
    observation_type: ClassVar[type[Observation]] = WordleObservation
    state_type: ClassVar[type[State]] = WordleState

    def __init__(self) -> None:
        super().__init__()
        self._answer = ""
        self._guesses: list[str] = []
        self._found: set[int] = set()

    def reset(self, arguments: ResetArguments) -> Observation:
        rng = random.Random(arguments.seed_or_drawn())
        self._answer = ANSWERS[int(rng.random() * len(ANSWERS))]
        self._guesses, self._found = [], set()
        return WordleObservation(message=f"Guess the word of {LENGTH} letters. You have {TRIES} tries.")

    def step(self, action: Guess) -> Observation:
        if not self._answer:
            raise NotReset
        if self._over:
            raise EpisodeOver
        guess = action.guess.strip().lower()
        if len(guess) != LENGTH or not (guess.isascii() and guess.isalpha()):
            return self._observe(f"{action.guess[:40]!r} is no word of {LENGTH} letters; the try does not count", None)
        self._guesses.append(guess)
        return self._score(guess)

    def state(self) -> State:
        return WordleState(
            episode_id=self.episode_id,
            step_count=self.step_count,
            guesses=self._guesses,
            answer=self._answer if self._over else None,
        )

    @property
    def _over(self) -> bool:
        return bool(self._guesses) and (self._guesses[-1] == self._answer or len(self._guesses) == TRIES)

    def _score(self, guess: str) -> Observation:
        feedback = marks(guess, self._answer)
        found = {place for place, mark in enumerate(feedback) if mark == RIGHT}
        reward = POSITION_REWARD * len(found - self._found)
        self._found |= found
        if guess == self._answer:
            reward += WIN_REWARD - LOST_PER_TRY * (len(self._guesses) - 1)
            return self._observe(None, feedback, message="Solved.", reward=reward)
        message = f"Not solved; the word was {self._answer}." if self._over else "Guess again."
        return self._observe(None, feedback, message=message, reward=reward)

    def _observe(
        self, error: str | None, feedback: str | None, *, message: str = "Guess again.", reward: float = 0.0
    ) -> WordleObservation:
        return WordleObservation(
            message=message,
            feedback=feedback,
            tries_left=TRIES - len(self._guesses),
            error=error,
            reward=round(reward, 6),
            done=self._over,
        )


def marks(guess: str, answer: str) -> str:
    """The feedback for a guess; a letter is marked at most as often as the answer holds it, right places first."""
    found = [RIGHT if mine == theirs else ABSENT for mine, theirs in zip(guess, answer, strict=True)]
    left = [theirs for theirs, mark in zip(answer, found, strict=True) if mark == ABSENT]
    for place, letter in enumerate(guess):
        if found[place] == ABSENT and letter in left:
            found[place] = MISPLACED
            left.remove(letter)
    return "".join(found)
