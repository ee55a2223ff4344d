"""A service of common's own making, as a process: `python services.py [flags]`."""

import asyncio
import sys

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollgym.common.app import Service
from rollgym.common.command import service_command
from rollgym.common.disconnect import run_until_disconnect
from rollgym.common.errors import EnvBusy
from rollgym.common.settings import ServiceSettings, service_config

ENDED: list[str] = []


class PumpSettings(ServiceSettings):
    model_config = service_config("pump")

    tank: str = "ok"


async def _echo(request: Request) -> Response:
    return Response(await request.body())


async def _busy(_: Request) -> Response:
    raise EnvBusy("all full, see http://u:S3NT1NEL@h", retry_after_s=3.2, api_key="S3NT1NEL", waited_s=1)


async def _bug(_: Request) -> Response:
    raise KeyError("a bug")


async def _hang(_: Request) -> Response:
    ENDED.append("hanging")
    await asyncio.Event().wait()
    raise AssertionError


async def _work(request: Request) -> Response:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ENDED.append("cancelled")

    await run_until_disconnect(request, work())
    raise AssertionError


async def _ended(_: Request) -> Response:
    return JSONResponse(ENDED)


ROUTES = [
    Route("/echo", _echo, methods=["POST"]),
    Route("/busy", _busy),
    Route("/bug", _bug),
    Route("/hang", _hang),
    Route("/work", _work),
    Route("/ended", _ended),
]


def pump(settings: PumpSettings) -> Service:
    async def ready() -> dict[str, str]:
        return {"tank": settings.tank}

    return Service("pump", "pumps", settings, routes=ROUTES, ready=ready, metadata=lambda: {"tank": settings.tank})


if __name__ == "__main__":
    words = ["serve", *sys.argv[1:]]
    raise SystemExit(
        service_command(words, prog="gym-pump", description="A pump.", settings=PumpSettings, service=pump)
    )
