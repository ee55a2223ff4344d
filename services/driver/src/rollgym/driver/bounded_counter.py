"""Counts by words that others choose: however many different ones come, a bounded number is kept apart."""

from __future__ import annotations

from collections import Counter

MOST_WORDS = 100
OTHER = "(other)"


class BoundedCounter(Counter[str]):
    """A counter whose first hundred words are counted each by itself, and all later ones together as ``(other)``."""

    def count_one(self, word: str) -> None:
        self[word if word in self or len(self) < MOST_WORDS else OTHER] += 1
