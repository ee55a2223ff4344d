"""What has been played of one episode: its steps, its rewards, its end. Knows no socket and no session."""

from __future__ import annotations

import hashlib

from rollgym.resources.frames import Observation
from rollgym.resources.rewards import RewardMode, RewardTally
from rollgym.resources.verify import Failure, Verification, verification

METADATA_BYTES = 64 * 1024


class Episode:
    """One episode so far. Times are the loop's, in seconds."""

    __slots__ = ("_finished_at", "_initial", "_initial_digest", "_metadata", "_reset", "_tally", "done", "steps")

    def __init__(self, mode: RewardMode, reset: bytes, now: float) -> None:
        self.steps = 0
        self.done = False
        self._tally = RewardTally(mode)
        self._reset = reset
        self._initial: Observation | None = None
        self._initial_digest = b""
        self._metadata: bytes | None = None
        self._finished_at = now

    @property
    def reset(self) -> bytes:
        """The reset's arguments as JSON text; needed until the first step is sent."""
        return self._reset

    def begin(self, initial: Observation, now: float) -> None:
        """The reset was answered."""
        self._initial, self._initial_digest = initial, _digest(initial)
        self._tally.add(initial.reward)
        self.done = initial.done
        self._finished_at = now

    def take_initial(self) -> Observation | None:
        """The reset's observation, once: nothing keeps it after that."""
        initial, self._initial = self._initial, None
        return initial

    def is_had_again(self, initial: Observation) -> bool:
        """Whether a new session that starts with `initial` is this very episode: it is seeded, or looks the same."""
        return b'"seed"' in self._reset or _digest(initial) == self._initial_digest

    def step_sent(self) -> None:
        """A step is on its way: the episode cannot be had again from its reset."""
        self.steps += 1
        self._reset = b""

    def step_answered(self, frame: Observation) -> None:
        self._tally.add(frame.reward)
        self.done = frame.done
        if frame.metadata is not None and len(frame.metadata) <= METADATA_BYTES:
            self._metadata = frame.metadata

    def paused_s(self, now: float) -> float:
        """Seconds since the last reset or step was answered."""
        return now - self._finished_at

    def resume(self, now: float) -> None:
        """A step was answered, an error included."""
        self._finished_at = now

    def verification(self, failure: Failure | None) -> Verification:
        """The verdict on the episode as it stands."""
        return verification(self._tally, failure, steps=self.steps, done=self.done, metadata=self._metadata)


def _digest(frame: Observation) -> bytes:
    return hashlib.blake2b(frame.observation, digest_size=16).digest()
