"""How the scripted policy plays the environment `wordle`, at three skills, from a word list of its own."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from rollgym.driver.policies.protocol import SeedAnswer
from rollgym.driver.policies.scripted.script import Script, ask

TRIES = 6
OPENING = "crane"
"""The word of the list that splits it into the most groups."""

WEIGHED_GUESSES = 20


@cache
def words() -> tuple[str, ...]:
    """The words that the script knows, most ordinary first."""
    return tuple(files(__package__).joinpath("wordle_words.txt").read_text("ascii").split())


def play(seed: SeedAnswer, skill: str) -> Script:
    """Guess until solved or out of tries.

    A novice guesses down the list and never looks back, a competent player takes the first word that fits all that was
    said, an expert the fitting word whose answer tells the most.
    """
    fitting: Sequence[str] = words()
    for _ in range(TRIES):
        guess = _most_telling(fitting) if skill == "expert" else fitting[0]
        told = yield from ask("step", {"guess": guess}, "feedback")
        feedback = told["feedback"]
        if not isinstance(feedback, str) or set(feedback) == {"G"}:
            break
        fitting = (
            fitting[1:] if skill == "novice" else [w for w in fitting if marks(guess, w) == feedback and w != guess]
        )
        if not fitting or _is_over(told):
            break
    return "I have no more to guess."


def _is_over(told: Mapping[str, Any]) -> bool:
    return told.get("tries_left") == 0


def _most_telling(fitting: Sequence[str]) -> str:
    """The word that splits the fitting ones into the most groups; of a long list, a sample of guesses is weighed."""
    if len(fitting) == len(words()):
        return OPENING
    guesses = fitting[:: max(1, len(fitting) // WEIGHED_GUESSES)]
    return max(guesses, key=lambda guess: len({marks(guess, word) for word in fitting}))


def marks(guess: str, answer: str) -> str:
    """The feedback for a guess: G right, Y elsewhere in the word, - absent; no letter more often than it is there."""
    left = [theirs for mine, theirs in zip(guess, answer, strict=True) if mine != theirs]
    found = ""
    for mine, theirs in zip(guess, answer, strict=True):
        if mine == theirs:
            found += "G"
        elif mine in left:
            left.remove(mine)
            found += "Y"
        else:
            found += "-"
    return found
