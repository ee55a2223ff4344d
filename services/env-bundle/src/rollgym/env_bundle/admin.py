"""The admin routes, there only under `--admin`: faults put in force, looked at and lifted; totals."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, InvalidArguments
from rollgym.common.settings import problems
from rollgym.env_bundle.faults import Fault
from rollgym.env_bundle.routes import bundle_of


class FaultList(BaseModel):
    """The body of ``PUT /admin/faults``."""

    model_config = ConfigDict(extra="forbid")

    faults: tuple[Fault, ...]


async def list_faults(request: Request) -> Response:
    """The faults in force with their counts, and the totals since the start."""
    return JSONResponse(bundle_of(request).faults.snapshot())


async def put_faults(request: Request) -> Response:
    """Put these faults in force instead of those before."""
    bundle = bundle_of(request)
    asked = _read(await request.body())
    for fault in asked.faults:
        if fault.env is not None and bundle.registry.find(fault.env) is None:
            known = list(bundle.registry)
            raise InvalidArguments(f"faults: no environment {fault.env!r}; there are {', '.join(known)}")
    bundle.faults.replace(asked.faults)
    return JSONResponse(bundle.faults.snapshot())


async def lift_faults(request: Request) -> Response:
    """No faults from now on; answers what they had done."""
    bundle = bundle_of(request)
    done = bundle.faults.snapshot()
    bundle.faults.replace(())
    return JSONResponse(done)


async def stats(request: Request) -> Response:
    """Sessions now and since the start."""
    bundle = bundle_of(request)
    return JSONResponse(bundle.stats.snapshot(bundle.slots))


def _read(body: bytes) -> FaultList:
    try:
        data: Any = jsonx.loads(body)
    except ValueError as broken:
        raise BadRequest(f"the body is no JSON: {broken}") from broken
    try:
        return FaultList.model_validate(data)
    except ValidationError as wrong:
        raise InvalidArguments("; ".join(problems(wrong))) from wrong


ROUTES: list[BaseRoute] = [
    Route("/admin/faults", list_faults, methods=["GET"]),
    Route("/admin/faults", put_faults, methods=["PUT"]),
    Route("/admin/faults", lift_faults, methods=["DELETE"]),
    Route("/admin/stats", stats, methods=["GET"]),
]
