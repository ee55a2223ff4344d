"""What a script is: a generator that yields one turn's calls, is sent their results, and returns its last words."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `arguments` as text goes out as it is, valid JSON or not."""

    tool: str
    arguments: Mapping[str, Any] | str


Script = Generator[Sequence[Call], Sequence[Any], str]


class GaveUp(Exception):
    """The environment answered with errors only; the script ends with these words."""


def ask(
    tool: str, arguments: Mapping[str, Any], wanted: str
) -> Generator[Sequence[Call], Sequence[Any], dict[str, Any]]:
    """Call one tool and give its result, which must have the field `wanted`; an error is met by calling again.

    Raises GaveUp after three errors.
    """
    result: Any = None
    for _ in range(_TRIES):
        results = yield [Call(tool, arguments)]
        result = unwrapped(results[0] if results else None)
        if isinstance(result, dict) and wanted in result:
            return result
    raise GaveUp(f"{tool} gave no {wanted}: {result}")


def unwrapped(result: Any) -> Any:
    """The environment's own words inside a tool result or a step's observation."""
    while isinstance(result, dict):
        inner = result.get("observation") if "observation" in result else None
        if inner is None and "tool_name" in result:
            inner = result.get("result")
        if not isinstance(inner, dict):
            return result
        result = inner
    return result
