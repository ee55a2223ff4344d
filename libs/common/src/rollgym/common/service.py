"""Runs one service as a process: socket, signals, registration, garbage-collector tuning, a bounded stop.

`run_service` is what every service's command ends in; `Service` and `build_app` describe what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict

import uvicorn
import uvloop

from rollgym.common.app import OPEN_PATHS, Service, build_app, error_response
from rollgym.common.binding import address, backlog, bind, raise_open_file_limit, url_of
from rollgym.common.errors import ConfigurationError
from rollgym.common.gc_tuning import GcWatch, tune_gc
from rollgym.common.logs import configure_logging, get_logger
from rollgym.common.loop_lag import watching_loop_lag
from rollgym.common.metrics import ProcessMetrics
from rollgym.common.registration import ServerRegistration, advertised_host, new_instance_id, registered

__all__ = ["OPEN_PATHS", "Service", "build_app", "error_response", "run_service"]

KEEP_ALIVE_S = 75
STUCK_EXIT_CODE = 70

log = get_logger(__name__)


class UvicornServer(uvicorn.Server):
    """Uvicorn without its signal handling: who runs it decides what a signal means."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_service(service: Service) -> int:
    """Serve until SIGTERM or SIGINT; returns the process's exit code.

    0 after a graceful stop, 2 where the address cannot be bound, 1 where start-up failed. A stop that takes longer
    than `stop_timeout_s` and two seconds ends the process with 70: it never waits for a kill.
    """
    configure_logging(service.name, service.settings.log_level)
    raise_open_file_limit()
    try:
        listener = bind(service.settings.host, service.settings.port)
    except ConfigurationError as error:
        print(f"{service.name}: {error.message}", file=sys.stderr)
        return 2
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(service, listener))


async def _serve(service: Service, listener: socket.socket) -> int:
    settings = service.settings
    host, port = address(listener)
    config = uvicorn.Config(
        build_app(service),
        log_config=None,
        access_log=False,
        lifespan="on",
        backlog=backlog(),
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, int(settings.stop_timeout_s / 2)),
        server_header=False,
        **{"ws_ping_interval": None, "ws_max_size": settings.max_body_bytes, **service.uvicorn_options},
    )
    server = UvicornServer(config)
    stop = _Stop(service, server)
    process_metrics = ProcessMetrics(service.registry)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(GcWatch(on_pause=process_metrics.observe_pause))
        await stack.enter_async_context(watching_loop_lag(process_metrics.observe_lag))
        stack.enter_context(stop.on_signals())
        if settings.exit_with_parent:
            stop.follow_parent()
        serving = asyncio.create_task(_until_stopped(server, listener), name="serving")
        if not await _started(server, serving):
            return 1
        print(f"{service.name} listening on {url_of(host, port)}", flush=True)
        log.info("started", url=url_of(host, port), **asdict(tune_gc(settings.gc)))
        async with _announced(service, host, port):
            await stop.begun.wait()
        await serving
    log.info("stopped")
    stop.disarm()
    return 0


async def _until_stopped(server: uvicorn.Server, listener: socket.socket) -> None:
    # Uvicorn leaves a failed start-up by SystemExit, which must not tear through the loop.
    with contextlib.suppress(SystemExit):
        await server.serve(sockets=[listener])


async def _started(server: uvicorn.Server, serving: asyncio.Task[None]) -> bool:
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn offers a flag, no event
        await asyncio.sleep(0.005)
    if serving.done():
        await serving
    return server.started


@contextlib.asynccontextmanager
async def _announced(service: Service, host: str, port: int) -> AsyncIterator[None]:
    """Registered with the head, where one is configured."""
    settings = service.settings
    if settings.head_url is None:
        yield
        return
    reached_at = advertised_host(host, settings.advertise_host)

    def registration() -> ServerRegistration:
        return ServerRegistration(
            name=service.name,
            server_type=service.kind,
            implementation="rollgym",
            host=reached_at,
            port=port,
            url=url_of(reached_at, port),
            pid=os.getpid(),
            started_at=service.started_at,
            metadata=service.metadata(),
        )

    token = settings.token.get_secret_value() if settings.token else None
    async with registered(settings.head_url, new_instance_id(service.name), registration, token=token):
        yield


class _Stop:
    """The one way a service ends: a signal or the parent's end begins it, a deadline bounds it."""

    def __init__(self, service: Service, server: uvicorn.Server) -> None:
        self._service, self._server = service, server
        self._loop = asyncio.get_running_loop()
        self._deadline: threading.Timer | None = None
        self.begun = asyncio.Event()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            self._loop.add_signal_handler(number, self.begin, signal.Signals(number).name)
        # A container starts us with SIGTERM blocked: as PID 1 it would be lost before there is a handler.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        try:
            yield
        finally:
            for number in signals:
                self._loop.remove_signal_handler(number)

    def begin(self, reason: str) -> None:
        if self.begun.is_set():
            return
        log.info("stopping", reason=reason)
        self._deadline = threading.Timer(self._service.settings.stop_timeout_s + 2.0, self._give_up)
        self._deadline.daemon = True
        self._deadline.start()
        self._service.stopping = True
        if self._service.on_stop is not None:
            self._service.on_stop()
        self._server.should_exit = True
        self.begun.set()

    def follow_parent(self) -> None:
        """Begin the stop when standard input ends, which it does however the parent ends."""
        threading.Thread(target=self._wait_for_parent, name="parent-watch", daemon=True).start()

    def _wait_for_parent(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop may be closed: then the process is ending already
            self._loop.call_soon_threadsafe(self.begin, "the parent process ended")
        fallback = threading.Timer(self._service.settings.stop_timeout_s + 2.0, self._give_up)
        fallback.daemon = True
        fallback.start()

    def disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _give_up(self) -> None:
        log.error("the stop took too long; leaving", seconds=self._service.settings.stop_timeout_s + 2.0)
        for handler in logging.getLogger().handlers:
            handler.flush()
        os._exit(STUCK_EXIT_CODE)
