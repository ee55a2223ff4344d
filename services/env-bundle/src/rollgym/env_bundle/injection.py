"""Carries faults out on a session: at the handshake, instead of or around an answer, or while the client is quiet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rollgym.common import jsonx
from rollgym.env_bundle import frames
from rollgym.env_bundle.faults import Fault, FaultKind
from rollgym.env_bundle.frames import FrameRequest, RequestType
from rollgym.env_bundle.wire import until_lost

if TYPE_CHECKING:
    from rollgym.env_bundle.session import Session

MALFORMED_FRAME = b'{"type": "observation", "data": {"observation": {"message": "cut sho'
PADDING_FIELD = "injected_padding"
_NOTHING: dict[str, Any] = {"observation": {}, "reward": None, "done": False}


async def at_handshake(session: Session, fault: Fault) -> None:
    """Before the upgrade is answered. Returns where the handshake goes on."""
    match fault.kind:
        case FaultKind.LATE_HANDSHAKE:
            await asyncio.sleep(fault.lasts_s)
        case FaultKind.HTTP_503:
            await session.refuse_upgrade(503, fault.retry_after_s)
        case FaultKind.HTTP_500:
            await session.refuse_upgrade(500, None)
        case FaultKind.DROP_BEFORE:
            session.drop()
        case FaultKind.DROP_DURING:
            session.wire.send_part_of_handshake()
            session.drop()
        case FaultKind.TCP_RESET:
            session.reset_by_peer()
        case FaultKind.HALF_OPEN:
            await _stay_silent(session, fault)


async def at_request(session: Session, fault: Fault, request: FrameRequest) -> None:
    """Around the answer to a request. Dropped and reset connections lose the answer of a request that was carried out;
    the frame faults answer instead of carrying it out."""
    if fault.kind is FaultKind.SLOW_STEP:
        await asyncio.sleep(fault.lasts_s)
        await session.answer(request)
    elif fault.kind is FaultKind.HALF_OPEN:
        session.wire.mute()
        await _carry_out(session, request)
        await _stay_silent(session, fault)
    elif fault.kind in (FaultKind.DROP_BEFORE, FaultKind.DROP_DURING, FaultKind.DROP_AFTER, FaultKind.TCP_RESET):
        await _cut(session, fault, await _carry_out(session, request))
    else:
        await session.wire.send_frame(await _wrong_answer(session, fault, request))
        if request.type is RequestType.CLOSE:
            await session.answer(request)


async def while_idle(session: Session, fault: Fault) -> None:
    """Between requests, unasked."""
    match fault.kind:
        case FaultKind.DROP_BEFORE:
            session.drop()
        case FaultKind.TCP_RESET:
            session.reset_by_peer()
        case FaultKind.HALF_OPEN:
            await _stay_silent(session, fault)
        case FaultKind.DROP_DURING:
            await session.wire.send_part_of_frame(MALFORMED_FRAME)
            session.drop()
        case _:
            await session.wire.send_frame(await _wrong_answer(session, fault, None))


async def _carry_out(session: Session, request: FrameRequest) -> bytes:
    """The answer that the client will not get, or not whole; closing has none."""
    return b"" if request.type is RequestType.CLOSE else await session.carry_out(request)


async def _cut(session: Session, fault: Fault, answer: bytes) -> None:
    if fault.kind is FaultKind.TCP_RESET:
        session.reset_by_peer()
    if fault.kind is FaultKind.DROP_DURING:
        await session.wire.send_part_of_frame(answer or MALFORMED_FRAME)
    if fault.kind is FaultKind.DROP_AFTER and answer:
        await session.wire.send_frame(answer)
    session.drop()


async def _stay_silent(session: Session, fault: Fault) -> None:
    session.wire.mute()
    await until_lost(fault.lasts_s)
    session.drop()


async def _wrong_answer(session: Session, fault: Fault, request: FrameRequest | None) -> bytes:
    """The frame that comes instead of the answer, or, without a request, unasked."""
    if fault.kind is FaultKind.ERROR_FRAME:
        return frames.error(fault.code, "injected fault: error-frame")
    if fault.kind is FaultKind.MALFORMED_FRAME:
        return MALFORMED_FRAME
    if fault.kind is FaultKind.WRONG_TYPE_FRAME:
        wants_state = request is not None and request.type is RequestType.STATE
        kind, data = ("observation", _NOTHING) if wants_state else ("state", {"episode_id": None, "step_count": 0})
        return jsonx.dumps({"type": kind, "data": data})
    answer = None if request is None or request.type is RequestType.CLOSE else await session.carry_out(request)
    return _padded(answer, fault.size_bytes)


def _padded(answer: bytes | None, size_bytes: int) -> bytes:
    """An answer with that much more in its observation; never bounded, since too much is the point."""
    if answer is None:
        answer = jsonx.dumps({"type": "observation", "data": _NOTHING})
    place = answer.find(b'"observation":{')
    if place < 0:
        place, opening = answer.find(b'"data":{'), b'"data":{'
    else:
        opening = b'"observation":{'
    inside = place + len(opening)
    comma = b"" if answer[inside : inside + 1] == b"}" else b","
    field = b'"%s":"%s"' % (PADDING_FIELD.encode(), b"x" * size_bytes)
    return answer[:inside] + field + comma + answer[inside:]
