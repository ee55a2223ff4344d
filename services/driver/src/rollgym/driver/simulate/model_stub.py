"""A simulated model endpoint: calls the tool `step` on every turn but the last, on which it answers with text.

    python -m rollgym.driver.simulate.model_stub [--turns 10] [--latency fixed:0]

It speaks the Responses API and keeps nothing: the turn is how many tool results the request holds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from rollgym.common import jsonx
from rollgym.driver.simulate.latency import Latency, rng_of
from rollgym.driver.simulate.raw_http import Connection, Request, serve

_TOOL_RESULT = b'"function_call_output"'


class ModelStub:
    """Answers made once, one a turn."""

    def __init__(self, options: Namespace) -> None:
        self._latency: Latency = options.latency
        self._rng = rng_of(options.seed)
        self._answers = [jsonx.dumps(_answer(turn, last=turn + 1 == options.turns)) for turn in range(options.turns)]
        self._loop = asyncio.get_running_loop()
        self._calls = self._in_flight = self._peak = self._answered = 0
        self._first_call_at: float | None = None
        self._last_answer_at: float | None = None

    def handle(self, connection: Connection, request: Request) -> None:
        if request.method == "GET":
            connection.reply_json(self.stat())
            return
        if not request.path.endswith("/responses"):
            connection.reply_json({"error": {"message": f"no route {request.path}"}}, status=404)
            return
        self._first_call_at = self._first_call_at or time.time()
        self._calls += 1
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        turn = min(request.body.count(_TOOL_RESULT), len(self._answers) - 1)
        latency_s = self._latency.draw(self._rng)
        if latency_s > 0:
            self._loop.call_later(latency_s, self._reply, connection, turn)
        else:
            self._reply(connection, turn)

    def _reply(self, connection: Connection, turn: int) -> None:
        self._in_flight -= 1
        self._answered += connection.is_open
        self._last_answer_at = time.time()
        connection.reply([self._answers[turn]])

    def stat(self) -> dict[str, Any]:
        return {
            "calls": self._calls,
            "answered": self._answered,
            "peak_in_flight": self._peak,
            "first_call_at": self._first_call_at,
            "last_answer_at": self._last_answer_at,
        }


def _answer(turn: int, *, last: bool) -> dict[str, Any]:
    text = {"type": "output_text", "text": "done", "annotations": []}
    message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    call = {
        "type": "function_call",
        "id": f"fc_{turn}",
        "call_id": f"call_{turn}",
        "name": "step",
        "arguments": jsonx.dumps({"message": f"turn {turn}", "reward": 0.1}).decode(),
        "status": "completed",
    }
    return {
        "id": f"resp_{turn}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "simulated",
        "output": [message if last else call],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 40_000 + 100 * turn,
            "input_tokens_details": {"cached_tokens": 1_000},
            "output_tokens": 100,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 40_100 + 100 * turn,
        },
    }


def parser() -> ArgumentParser:
    flags = ArgumentParser(prog="model_stub", description=__doc__)
    flags.add_argument("--port", type=int, default=0)
    flags.add_argument("--turns", type=int, default=10, help="model calls of one rollout")
    flags.add_argument("--latency", type=Latency.parse, default=Latency.parse("fixed:0"))
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--exit-with-parent", action="store_true", help="stop when standard input ends")
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return serve("model", options.port, lambda _: ModelStub(options).handle, exit_with_parent=options.exit_with_parent)


if __name__ == "__main__":
    sys.exit(main())
