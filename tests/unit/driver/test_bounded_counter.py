"""Counts by words that others choose stay bounded, and still sum up."""

from rollgym.driver.bounded_counter import MOST_WORDS, OTHER, BoundedCounter


def test_words_beyond_the_bound_are_counted_together() -> None:
    found = BoundedCounter()
    for number in range(MOST_WORDS + 50):
        found.count_one(f"word {number}")
        found.count_one("word 0")
    assert len(found) == MOST_WORDS + 1
    assert found[OTHER] == 50
    assert found["word 0"] == MOST_WORDS + 51
    assert found.total() == 2 * (MOST_WORDS + 50)
