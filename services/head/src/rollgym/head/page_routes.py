"""Routes of the web page: `/` for a browser (JSON liveness for everyone else), `/ui`, a run's page, static files."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rollgym.common.errors import RollgymError
from rollgym.head.pages import CONTENT_SECURITY_POLICY, render, run_view, static_files
from rollgym.head.server_routes import all_servers
from rollgym.head.state import head_of

RUNS_SHOWN = 50
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Vary": "Accept",
}
_HTML = frozenset({"text/html", "application/xhtml+xml"})


async def root(request: Request) -> Response:
    """The page where HTML is preferred, else liveness as JSON; 200 either way."""
    if prefers_html(request.headers.get("accept", "")):
        return await overview(request)
    return JSONResponse({"service": "head", "server_type": "head", "status": "up"}, headers={"Vary": "Accept"})


async def overview(request: Request) -> Response:
    """Servers and runs."""
    history = head_of(request).history
    runs, total = await history.newest(RUNS_SHOWN)
    now = history.now()
    views = [run_view(run, now) for run in runs]
    return _page(request, "overview.html", servers=all_servers(request), runs=views, runs_total=total)


async def run_page(request: Request) -> Response:
    """One run; an unknown one is a page too, with status 404."""
    history = head_of(request).history
    run_id: str = request.path_params["run_id"]
    try:
        run = await history.get(run_id)
    except RollgymError as error:
        return _page(request, "missing.html", status=error.status, message=error.message)
    return _page(request, "run.html", view=run_view(run, history.now()))


async def static_file(request: Request) -> Response:
    """A file of the page; its address changes with its content."""
    found = static_files().get(request.path_params["name"])
    if found is None:
        return JSONResponse({"code": "not_found", "message": f"Not Found: GET {request.url.path}", "data": {}}, 404)
    content, media_type = found
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=media_type, headers=headers)


def _page(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    root_path = request.scope.get("root_path", "")
    html = render(template, root=root_path, now=time.time(), **context)
    return HTMLResponse(html, status, headers=_HEADERS)


def prefers_html(accept: str) -> bool:
    """Whether an Accept header asks for HTML at least as much as for JSON; `*/*` alone does not."""
    html = json = 0.0
    for part in accept.split(","):
        media_type, _, parameters = part.strip().partition(";")
        quality = _quality(parameters)
        if media_type.strip().lower() in _HTML:
            html = max(html, quality)
        elif media_type.strip().lower() == "application/json":
            json = max(json, quality)
    return html > 0 and html >= json


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def page_routes() -> list[BaseRoute]:
    return [
        Route("/", root, methods=["GET"]),
        Route("/ui", overview, methods=["GET"]),
        Route("/ui/runs/{run_id}", run_page, methods=["GET"]),
        Route("/ui/static/{name}", static_file, methods=["GET"]),
    ]
