"""Plays the turns that a task row lists in `scripted.calls`, for any environment.

Each turn is one call, a list of calls made in parallel, or a text: `{"name": "step", "arguments": {…}}`,
`[{"name": …}, {"name": …}]`, `{"text": "…"}`. Arguments given as text go out as they are, JSON or not. A text ends the
rollout; without one the replay ends after its last turn.
"""

from collections.abc import Sequence
from typing import Any

from rollgym.common.errors import BadRequest
from rollgym.driver.policies.scripted.script import Call, Script


def play(turns: Any) -> Script:
    """The script of these turns. Raises BadRequest (terminal), at once, for turns of another form."""
    return _play(_checked(turns))


def _play(turns: Sequence[Sequence[Call] | str]) -> Script:
    for turn in turns:
        if isinstance(turn, str):
            return turn
        yield turn
    return "That was the last call."


def _checked(turns: Any) -> list[Sequence[Call] | str]:
    if not isinstance(turns, list):
        raise _malformed("must be a list of turns")
    return [_turn(turn, number) for number, turn in enumerate(turns, start=1)]


def _turn(turn: Any, number: int) -> Sequence[Call] | str:
    if isinstance(turn, dict) and isinstance(turn.get("text"), str):
        return str(turn["text"])
    calls = turn if isinstance(turn, list) else [turn]
    if not calls:
        raise _malformed(f"turn {number} has no call")
    return [_call(call, number) for call in calls]


def _call(call: Any, number: int) -> Call:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise _malformed(f'turn {number}: a call is {{"name": …, "arguments": {{…}}}}')
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict | str):
        raise _malformed(f"turn {number}: arguments must be an object, or text to send as it is")
    return Call(call["name"], arguments)


def _malformed(problem: str) -> BadRequest:
    return BadRequest(f"scripted.calls {problem}", terminal=True)
