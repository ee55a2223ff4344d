"""What /verify said of an episode: its bytes, and the few fields that the driver decides by."""

import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import InvalidReward, VerifyError
from rollgym.common.redaction import redact_text
from rollgym.driver.encoded import struct_of
from rollgym.driver.http_client import excerpt


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judged episode. `reward` is finite; it is None only where the episode is masked and no number was given."""

    body: bytes
    reward: float | None
    mask_sample: bool = False
    failure_kind: str | None = None
    failure_reason: str | None = None


class _Fields(msgspec.Struct, gc=False):
    reward: msgspec.Raw = msgspec.Raw(b"null")
    mask_sample: bool | None = None
    failure_kind: str | None = None
    failure_reason: str | None = None


_fields_decoder = msgspec.json.Decoder(_Fields)


def read_verdict(body: bytes) -> Verdict:
    """Read a verify answer. Booleans are rewards of 1 and 0.

    Raises InvalidReward where the reward is no finite number (and the episode is not masked), VerifyError where the
    answer is no object.
    """
    try:
        fields = struct_of(body, _fields_decoder)
        given = jsonx.loads(bytes(fields.reward))
    except ValueError as error:
        raise _unreadable(body, error) from error
    masked = bool(fields.mask_sample)
    return Verdict(
        body=body.strip(),
        reward=_reward(given, masked=masked),
        mask_sample=masked,
        failure_kind=fields.failure_kind,
        failure_reason=fields.failure_reason,
    )


def _reward(given: Any, *, masked: bool) -> float | None:
    if isinstance(given, int | float) and math.isfinite(given):
        return float(given)
    if masked:
        return None
    raise _invalid(given)


def _unreadable(body: bytes, cause: ValueError) -> InvalidReward | VerifyError:
    """NaN and the infinities are no JSON, but some servers write them: say what is wrong with such a reward."""
    try:
        lenient = json.loads(body)
    except (ValueError, RecursionError):
        lenient = None
    given = lenient.get("reward") if isinstance(lenient, dict) else None
    if isinstance(given, float) and not math.isfinite(given):
        return _invalid(given)
    return VerifyError(f"the verify answer cannot be read ({cause}): {redact_text(excerpt(body))}")


def _invalid(given: Any) -> InvalidReward:
    shown = "no reward" if given is None else f"reward {str(given)[:80]!r}"
    return InvalidReward(f"verify gave {shown}; a reward is a finite number", reward=str(given)[:80])
