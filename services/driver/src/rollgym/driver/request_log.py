"""The requests of one rollout's model calls, of which each repeats the whole conversation before it.

Ten requests of 200 KB are one of 200 KB and what the others do not have in common with their follower: a thousand
rollouts in flight hold 0.2 GB instead of 2.
"""

from __future__ import annotations

import msgspec


class _Shared(msgspec.Struct, frozen=True, gc=False):
    """A request told by its follower: so much of its beginning, what only this one has, so much of its end."""

    prefix_bytes: int
    own: bytes
    suffix_bytes: int

    @classmethod
    def of(cls, request: bytes, follower: bytes) -> _Shared:
        prefix = common_prefix(request, follower)
        suffix = common_suffix(request[prefix:], follower[prefix:])
        return cls(prefix, request[prefix : len(request) - suffix], suffix)

    def whole(self, follower: bytes) -> bytes:
        return b"".join((follower[: self.prefix_bytes], self.own, follower[len(follower) - self.suffix_bytes :]))


class RequestLog:
    """Takes requests in the order in which they were sent, and gives them back byte for byte."""

    __slots__ = ("_earlier", "_last")

    def __init__(self) -> None:
        self._earlier: list[_Shared] = []
        self._last: bytes | None = None

    def add(self, request: bytes) -> None:
        if self._last is not None:
            self._earlier.append(_Shared.of(self._last, request))
        self._last = request

    def all(self) -> list[bytes]:
        """Every request, the first one first."""
        if self._last is None:
            return []
        found = [self._last]
        for each in reversed(self._earlier):
            found.append(each.whole(found[-1]))
        return found[::-1]


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes from the first on are the same. By halves: the interpreter compares slices, not bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: bytes, other: bytes) -> int:
    """How many bytes up to the last are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
