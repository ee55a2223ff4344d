"""Waiting for a condition with a deadline: what a test does where it would otherwise sleep."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PAUSE_S = 0.02


@overload
async def eventually(condition: Callable[[], Awaitable[T]], timeout_s: float = 10.0) -> T: ...


@overload
async def eventually(condition: Callable[[], T], timeout_s: float = 10.0) -> T: ...


async def eventually(condition: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """Return the first truthy value of `condition`, a plain or an async callable.

    An exception that it raises means "not yet". After `timeout_s` the test fails with the last value or exception seen.
    """
    last: object = "never finished one check"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    found = condition()
                    value = (await found) if inspect.isawaitable(found) else found
                except Exception as error:
                    last = error
                else:
                    if value:
                        return value
                    last = value
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s:g} s; last seen: {last!r}") from _cause(last)


def wait_until(condition: Callable[[], T], timeout_s: float = 10.0, pause_s: float = PAUSE_S) -> T:
    """`eventually` for code without an event loop."""
    last: object = "never finished one check"
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            value = condition()
        except Exception as error:
            last = error
        else:
            if value:
                return value
            last = value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s:g} s; last seen: {last!r}") from _cause(last)
        time.sleep(pause_s)


def _cause(last: object) -> Exception | None:
    return last if isinstance(last, Exception) else None
