"""Numbers and times as people read them. What is absent reads as a dash, never as 0."""

from __future__ import annotations

import math
from datetime import UTC, datetime

ABSENT = "–"


def count(value: float | None) -> str:
    """A whole number with thousands separated."""
    return ABSENT if value is None else f"{round(value):,}"


def decimal(value: float | None, digits: int = 3) -> str:
    """A number to a fixed number of digits; very large or small ones in scientific notation."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value and not 10**-digits <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return f"{value:,.{digits}f}"


def share(part: float | None, whole: float | None) -> str:
    """`part` of `whole` in percent; a dash where there is no whole. Never rounds to 0 or 100 what is not."""
    if part is None or not whole:
        return ABSENT
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1%"
    if 99.9 < percent < 100:
        return ">99.9%"
    return f"{percent:.0f}%" if percent in (0, 100) else f"{percent:.1f}%"


def duration(seconds: float | None) -> str:
    """A length of time in the unit that suits it: 850 ms, 12.3 s, 4 min 5 s, 2 h 13 min, 3 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return ABSENT
    seconds = max(0.0, seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms" if seconds else "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(seconds: float | None) -> str:
    """How long ago, to the second: it is read, not measured with."""
    if seconds is None:
        return ABSENT
    return "just now" if seconds < 1 else f"{duration(float(int(seconds))).replace('.0 s', ' s')} ago"


def instant(epoch_s: float | None) -> str:
    """A moment in UTC."""
    moment = _moment(epoch_s)
    return ABSENT if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def minute(epoch_s: float | None) -> str:
    """A moment to the minute, in UTC without saying so: for columns whose page says it once."""
    moment = _moment(epoch_s)
    return ABSENT if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def iso(epoch_s: float | None) -> str:
    """A moment as machines read it (`<time datetime>`); empty where absent."""
    moment = _moment(epoch_s)
    return "" if moment is None else moment.isoformat(timespec="seconds")


def _moment(epoch_s: float | None) -> datetime | None:
    if epoch_s is None:
        return None
    try:
        return datetime.fromtimestamp(epoch_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
