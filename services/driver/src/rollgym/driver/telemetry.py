"""How others see a run while it goes on: `/metrics`, a registration that Prometheus finds, progress at the head."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from rollgym.common.binding import address, bind, url_of
from rollgym.common.errors import ConfigurationError, HeadError
from rollgym.common.logs import get_logger
from rollgym.common.registration import ServerRegistration, advertised_host, new_instance_id, registered
from rollgym.driver.background import repeatedly
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.fleet import HeadClient

REPORT_EVERY_S = 2.0
RUN_TTL_S = 20.0
FINAL_REPORT_TIMEOUT_S = 5.0
FINAL_REPORT_PAUSE_S = 0.5

log = get_logger(__name__)


@contextlib.contextmanager
def metrics_socket(config: RolloutCollectionConfig) -> Iterator[socket.socket | None]:
    """A listening socket for `/metrics`; None where it is turned off.

    A taken default port is no reason to stop a run: a free one is used instead. Raises ConfigurationError where the
    settings name a port or host that cannot be had.
    """
    if config.metrics_port is None:
        yield None
        return
    try:
        listener = bind(config.metrics_host, config.metrics_port)
    except ConfigurationError as error:
        if config.model_fields_set & {"metrics_port", "metrics_host"}:
            raise ConfigurationError(f"metrics_port: {error.message}", **error.data) from error
        listener = bind(config.metrics_host, 0)
    with listener:
        yield listener


@contextlib.asynccontextmanager
async def serving_metrics(
    config: RolloutCollectionConfig, listener: socket.socket | None, registry: CollectorRegistry, head_url: str | None
) -> AsyncIterator[str | None]:
    """Serve `/metrics` and register it with the head, where one takes that; yields its URL, None without a socket."""
    if listener is None:
        yield None
        return
    # Imported here: a run that serves no metrics has no use for an HTTP server.
    from rollgym.driver.metrics_server import metrics_server

    host, port = address(listener)
    started_at = time.time()
    reached_at = advertised_host(host, config.advertise_host)

    def registration() -> ServerRegistration:
        return ServerRegistration(
            name="driver",
            server_type="driver",
            implementation="rollgym",
            host=reached_at,
            port=port,
            url=url_of(reached_at, port),
            pid=os.getpid(),
            started_at=started_at,
        )

    token = config.token.get_secret_value() if config.token else None
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(metrics_server(listener, registry))
        if head_url is not None:
            await stack.enter_async_context(registered(head_url, new_instance_id("driver"), registration, token=token))
        yield url_of(host, port)


@dataclass
class RunReporter:
    """Tells the head how a run is going, and at the end hands it the last values, which outlive this process.

    `head` is None where there is none that keeps runs: then nothing is told.
    """

    head: HeadClient | None
    run_id: str
    snapshot: Callable[[], dict[str, Any]]
    registry: CollectorRegistry
    _problem: str = ""

    @contextlib.asynccontextmanager
    async def reporting(self) -> AsyncIterator[None]:
        await self._report(self.snapshot())
        async with repeatedly(lambda: self._report(self.snapshot()), REPORT_EVERY_S, "run-reports"):
            yield

    async def final(self, summary: dict[str, Any]) -> None:
        """The last report: bounded in time, never the reason for a failed run."""
        text = generate_latest(self.registry).decode()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINAL_REPORT_TIMEOUT_S):
                last = {**self.snapshot(), "metrics_text": text, "summary": summary}
                while not await self._report(last):  # noqa: ASYNC110 - a head that restarts gives nothing to wait on
                    await asyncio.sleep(FINAL_REPORT_PAUSE_S)

    async def _report(self, body: dict[str, Any]) -> bool:
        """Whether the head has it, or there is none to tell."""
        if self.head is None:
            return True
        try:
            await self.head.put(f"/v1/runs/{self.run_id}", {**body, "ttl_s": RUN_TTL_S})
            self._problem = ""
            return True
        except HeadError as error:
            if error.message != self._problem:
                log.warning("the head does not take this run's progress", problem=error.message)
            self._problem = error.message
            return False
