"""Event streams: every report, the turn to lost, the end of the run, and the end of the head."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rollgym.head import event_streams
from rollgym.head.errors import HeadFull
from rollgym.head.event_streams import QUEUE_LENGTH, EventStreams, run_events
from rollgym.head.run_records import RunRecord, RunReport

Make = Callable[..., dict[str, Any]]


def run(report: Make, revision: int = 1, updated_at: float = 0.0, **changes: Any) -> RunRecord:
    return RunRecord("r1", RunReport.model_validate(report(**changes)), updated_at, revision)


async def next_event(events: AsyncIterator[bytes]) -> tuple[str, dict[str, Any]]:
    async with asyncio.timeout(5):
        lines = dict(line.split(": ", 1) for line in (await anext(events)).decode().strip().split("\n"))
    return lines.get("event", ""), json.loads(lines.get("data", "{}"))


async def opened(events: AsyncIterator[bytes]) -> tuple[str, dict[str, Any]]:
    """The first event, after the line that tells how soon to come back."""
    assert (await anext(events)).startswith(b"retry: ")
    return await next_event(events)


async def test_each_report_is_an_update_and_the_last_one_the_end(report: Make) -> None:
    streams = EventStreams()
    with streams.watching("r1") as queue:
        events = run_events(run(report), queue, lambda: 0.0)
        assert (await opened(events))[1]["revision"] == 1
        streams.publish(run(report, 2, reward_mean=0.5))
        kind, shown = await next_event(events)
        assert (kind, shown["revision"], shown["reward_mean"]) == ("update", 2, 0.5)
        streams.publish(run(report, 3, state="finished"))
        assert (await next_event(events))[0] == "update"
        kind, shown = await next_event(events)
        assert (kind, shown["state"]) == ("end", "finished")
        assert [event async for event in events] == []
    assert streams.open == 0


async def test_a_run_that_ended_before_is_told_and_ends_at_once(report: Make) -> None:
    with EventStreams().watching("r1") as queue:
        events = run_events(run(report, state="failed"), queue, lambda: 0.0)
        assert (await opened(events))[0] == "update"
        assert (await next_event(events))[0] == "end"


async def test_a_run_that_falls_silent_is_told_as_lost(report: Make) -> None:
    now = 0.0
    with EventStreams().watching("r1") as queue:
        events = run_events(run(report, ttl_s=0.05), queue, lambda: now)
        assert (await opened(events))[1]["state"] == "running"
        now = 1.0
        assert (await next_event(events))[1]["state"] == "lost"


async def test_a_quiet_run_gives_signs_of_life(report: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "KEEPALIVE_S", 0.01)
    with EventStreams().watching("r1") as queue:
        events = run_events(run(report), queue, lambda: 0.0)
        await opened(events)
        assert await anext(events) == b": still here\n\n"


async def test_the_stop_of_the_head_ends_open_streams_and_those_to_come(report: Make) -> None:
    streams = EventStreams()
    with streams.watching("r1") as queue:
        events = run_events(run(report), queue, lambda: 0.0)
        await opened(events)
        streams.close()
        streams.close()
        assert [event async for event in events] == []
    with streams.watching("r1") as queue:
        events = run_events(run(report), queue, lambda: 0.0)
        await opened(events)
        assert [event async for event in events] == []


async def test_a_slow_reader_misses_old_reports_and_holds_nothing_up(report: Make) -> None:
    streams = EventStreams()
    with streams.watching("r1") as queue:
        for revision in range(QUEUE_LENGTH + 10):
            streams.publish(run(report, revision))
        assert queue.qsize() == QUEUE_LENGTH
        first = queue.get_nowait()
        assert first is not None
        assert first.revision == 10
        streams.close()
        assert queue.qsize() == QUEUE_LENGTH


async def test_only_the_watched_run_is_told(report: Make) -> None:
    streams = EventStreams()
    with streams.watching("other") as queue:
        streams.publish(run(report))
        assert queue.empty()


async def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MAX_STREAMS", 1)
    streams = EventStreams()
    with streams.watching("r1"), pytest.raises(HeadFull):
        streams.check_room()
    streams.check_room()
