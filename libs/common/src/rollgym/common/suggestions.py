"""A near word for one that is unknown: what every message about a wrong name ends with."""

import difflib
from collections.abc import Sequence


def did_you_mean(name: str, known: Sequence[str] | set[str]) -> str:
    """`` (did you mean X?)`` where a known name is close, else nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""
