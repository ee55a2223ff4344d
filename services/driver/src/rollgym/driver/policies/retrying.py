"""When a model call is repeated, and after how long. Pure: no clock, no network."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRYABLE_STATUS = frozenset({408, 409, 429})


def is_retryable_status(status: int) -> bool:
    """Whether time can help: the server was busy, in conflict, or failed."""
    return status in RETRYABLE_STATUS or status >= 500


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait by a `Retry-After` header (a number or an HTTP date); None where it says nothing usable."""
    if value is None:
        return None
    text = value.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delays with jitter after the cap, so that callers who failed together do not return together."""

    first_s: float
    cap_s: float
    source: random.Random

    def delay(self, attempt: int, retry_after_s: float | None = None) -> float:
        """Seconds before repeat number `attempt` (from 1): never less than the server asked for."""
        base = min(self.cap_s, self.first_s * 2.0 ** min(attempt - 1, 30))
        if retry_after_s is not None:
            return retry_after_s + self.source.uniform(0, base)
        return base * self.source.uniform(0.5, 1.5)
