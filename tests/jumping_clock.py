"""An event loop whose clock jumps to the next timer instead of waiting for it: delays are exact, on any machine.

For code that waits for nothing but timers and its own tasks.

with asyncio.Runner(loop_factory=JumpingLoop) as runner:
    runner.run(…)
"""

import asyncio
import selectors


class _NeverWaiting(selectors.DefaultSelector):
    """Lets the loop's clock pass where the loop would wait."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0 if timeout else timeout)
        if timeout and not ready:
            self.passed_s += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0."""

    def __init__(self) -> None:
        self._clock = _NeverWaiting()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.passed_s
