"""The environment wordle: marks, rewards that add up, bad words, the end."""

import pytest

from rollgym.env_bundle.environment import EpisodeOver, NotReset
from rollgym.env_bundle.environments.wordle import ANSWERS, TRIES, Wordle, marks
from unit.env_bundle.playing import reset, step


@pytest.fixture
def wordle() -> Wordle:
    return Wordle()


async def answer_of(seed: int) -> str:
    """The word of a seed: played until the state tells it."""
    game = Wordle()
    await reset(game, seed=seed)
    for _ in range(TRIES):
        await step(game, guess="zzzzz")
    word: str = game.state().model_dump()["answer"]
    return word


@pytest.mark.parametrize(
    ("guess", "answer", "expected"),
    [
        ("crane", "crane", "GGGGG"),
        ("zzzzz", "crane", "-----"),
        ("nacre", "crane", "YYYYG"),
        pytest.param("allee", "apple", "GY--G", id="a-letter-is-marked-as-often-as-it-is-there"),
        pytest.param("eerie", "crane", "--Y-G", id="the-right-place-goes-first"),
    ],
)
def test_marks(guess: str, answer: str, expected: str) -> None:
    assert marks(guess, answer) == expected


def test_every_answer_can_be_guessed() -> None:
    assert all(len(word) == 5 and word.isascii() and word.islower() for word in ANSWERS)
    assert len(ANSWERS) == len(set(ANSWERS))


async def test_solving_at_once_earns_everything(wordle: Wordle) -> None:
    await reset(wordle, seed=4)
    answer = await step(wordle, guess=await answer_of(4))
    assert (answer["reward"], answer["done"], answer["observation"]["feedback"]) == (1.0, True, "GGGGG")


async def test_each_place_is_paid_once_and_a_late_win_less(wordle: Wordle) -> None:
    word = await answer_of(4)
    partial = word[:2] + "zzz"
    await reset(wordle, seed=4)
    rewards = [(await step(wordle, guess=guess))["reward"] for guess in (partial, partial, word)]
    assert rewards == pytest.approx([0.2, 0.0, 0.3 + 0.5 - 2 * 0.08])


async def test_six_misses_end_the_game_and_name_the_word(wordle: Wordle) -> None:
    await reset(wordle, seed=4)
    answers = [await step(wordle, guess="zzzzz") for _ in range(TRIES)]
    assert [answer["done"] for answer in answers] == [False] * 5 + [True]
    assert [answer["observation"]["tries_left"] for answer in answers] == [5, 4, 3, 2, 1, 0]
    assert await answer_of(4) in answers[-1]["observation"]["message"]


@pytest.mark.parametrize("guess", ["", "four", "sixsix", "12345", "ärger", "a b c"])
async def test_a_word_that_is_none_costs_no_try(wordle: Wordle, guess: str) -> None:
    await reset(wordle, seed=4)
    answer = await step(wordle, guess=guess)
    assert answer["observation"]["error"]
    assert (answer["observation"]["tries_left"], answer["reward"], answer["done"]) == (TRIES, 0.0, False)


async def test_the_answer_stays_hidden_during_the_game(wordle: Wordle) -> None:
    await reset(wordle, seed=4)
    await step(wordle, guess="zzzzz")
    assert wordle.state().model_dump()["answer"] is None


async def test_a_guess_before_reset_or_after_the_end_is_refused(wordle: Wordle) -> None:
    with pytest.raises(NotReset):
        await step(wordle, guess="crane")
    await reset(wordle, seed=4)
    await step(wordle, guess=await answer_of(4))
    with pytest.raises(EpisodeOver):
        await step(wordle, guess="crane")


async def test_case_and_space_around_a_guess_do_not_matter(wordle: Wordle) -> None:
    await reset(wordle, seed=4)
    assert (await step(wordle, guess=f" {(await answer_of(4)).upper()} "))["done"] is True
