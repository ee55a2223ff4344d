"""Routes of the run history: a driver's reports, the list, one run, and its server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from rollgym.common.errors import BadRequest
from rollgym.head.bodies import body_as, path_id, query_int
from rollgym.head.event_streams import run_events
from rollgym.head.run_history import RunHistory
from rollgym.head.run_records import RunRecord, RunReport, RunState
from rollgym.head.state import head_of

LIST_DEFAULT, LIST_MOST = 50, 1000


async def put_run(request: Request) -> Response:
    """Take a report in; answers the run as now shown, and `warnings` for what could not be kept of it."""
    history = head_of(request).history
    run_id = path_id(request, "run_id")
    report = await body_as(request, RunReport)
    if report.run_id not in (None, run_id):
        raise BadRequest(f"the body's run_id {report.run_id!r} is not the path's {run_id!r}", run_id=run_id)
    if report.state is RunState.LOST:
        raise BadRequest("state: `lost` is what the head says of a silent run, never reported", run_id=run_id)
    receipt = await history.record(run_id, report)
    body = {**receipt.record.to_wire(history.now()), "warnings": receipt.warnings}
    return JSONResponse(body, 201 if receipt.created else 200)


async def list_runs(request: Request) -> Response:
    """The newest runs (`?limit=`), and how many the history holds in all."""
    history = head_of(request).history
    limit = query_int(request, "limit", default=LIST_DEFAULT, least=1, most=LIST_MOST)
    runs, total = await history.newest(limit)
    return JSONResponse({"runs": [run.to_wire(history.now()) for run in runs], "total": total})


async def get_run(request: Request) -> Response:
    """One run, with the metrics that its driver handed over at the end."""
    history = head_of(request).history
    run = await history.get(path_id(request, "run_id"))
    return JSONResponse({**run.to_wire(history.now()), "metrics": [metric.to_wire() for metric in run.metrics]})


async def run_event_stream(request: Request) -> Response:
    """The run's events until it ends or the head stops."""
    history = head_of(request).history
    run_id = path_id(request, "run_id")
    await history.get(run_id)
    history.streams.check_room()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(history, run_id), media_type="text/event-stream", headers=headers)


async def _events(history: RunHistory, run_id: str) -> AsyncIterator[bytes]:
    with history.streams.watching(run_id) as queue:
        # Read after the queue is there: a report in between is seen twice rather than never.
        first: RunRecord = await history.get(run_id)
        async for event in run_events(first, queue, history.now):
            yield event


def run_routes(guard: list[Middleware]) -> list[BaseRoute]:
    """The routes; `guard` surrounds those that write."""
    return [
        Route("/v1/runs", list_runs, methods=["GET"]),
        Route("/v1/runs/{run_id}", get_run, methods=["GET"]),
        Route("/v1/runs/{run_id}", put_run, methods=["PUT"], middleware=guard),
        Route("/v1/runs/{run_id}/events", run_event_stream, methods=["GET"]),
    ]
