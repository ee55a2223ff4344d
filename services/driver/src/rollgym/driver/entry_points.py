"""The two ways in: with servers of one's own, or with those that run already. Both lead to one collection.

What belongs to the process is done here and nowhere deeper: garbage-collector tuning and signal handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator

from rollgym.common.binding import raise_open_file_limit
from rollgym.common.errors import ConfigurationError
from rollgym.common.gc_tuning import GcState, tune_gc
from rollgym.driver.config import RolloutCollectionConfig
from rollgym.driver.console import Console
from rollgym.driver.fleet import HeadClient
from rollgym.driver.interruption import Interruption
from rollgym.driver.preparation import Prepared, prepared
from rollgym.driver.run import Run
from rollgym.driver.run_report import RunReport

DESCRIPTORS_PER_ROLLOUT = 3
SPARE_DESCRIPTORS = 64


def _tune_driver_gc(config: RolloutCollectionConfig) -> GcState:
    """Freeze and set thresholds as the settings `driver_gc_*` say; once, before collection starts."""
    return tune_gc(config.gc)


def check_open_files(config: RolloutCollectionConfig) -> None:
    """Raise the soft limit of open files; raise ConfigurationError where even the hard one is too low."""
    limit, _ = raise_open_file_limit()
    needed = config.workers * DESCRIPTORS_PER_ROLLOUT + SPARE_DESCRIPTORS
    if limit < needed:
        possible = (limit - SPARE_DESCRIPTORS) // DESCRIPTORS_PER_ROLLOUT
        less = f" or set num_samples_in_parallel to {possible} or less" if possible >= 1 else ""
        raise ConfigurationError(
            f"{config.workers} rollouts in flight need about {needed} open files, the limit is {limit}: "
            f"raise it (ulimit -n {needed}){less}"
        )


async def run_serving(config: RolloutCollectionConfig, console: Console, *, debug_slow: bool = False) -> RunReport:
    """Start head, env-bundle and resources, collect, stop them again."""
    # Imported here: it brings the head's application, which a run with servers that run already never needs.
    from rollgym.driver.serving import serving_everything

    check_open_files(config)
    interruption = Interruption()
    with _signals(interruption, console, drain_on_sigterm=config.drain_on_sigterm):
        async with prepared(config) as ready:
            console.say("Starting env-bundle, resources and head …")
            async with serving_everything(config) as head_url:
                console.say(f"Head and web page: {head_url}")
                return await _collect(config, ready, head_url, console, interruption, debug_slow=debug_slow)


async def run_no_serve(config: RolloutCollectionConfig, console: Console, *, debug_slow: bool = False) -> RunReport:
    """Collect with the servers that are registered with the head at `config.head_url`."""
    check_open_files(config)
    interruption = Interruption()
    with _signals(interruption, console, drain_on_sigterm=config.drain_on_sigterm):
        async with prepared(config) as ready:
            return await _collect(config, ready, config.head_url, console, interruption, debug_slow=debug_slow)


async def _collect(
    config: RolloutCollectionConfig,
    ready: Prepared,
    head_url: str,
    console: Console,
    interruption: Interruption,
    *,
    debug_slow: bool,
) -> RunReport:
    token = config.token.get_secret_value() if config.token else None
    async with HeadClient(head_url, token) as head:
        run = Run(
            config,
            ready,
            head,
            console,
            interruption,
            debug_slow=debug_slow,
            before_collection=lambda: _tune_driver_gc(config),
        )
        return await run.collect()


@contextlib.contextmanager
def _signals(interruption: Interruption, console: Console, *, drain_on_sigterm: bool) -> Iterator[None]:
    """The first SIGINT or SIGTERM ends the run in order, the second ends the process at once."""
    loop = asyncio.get_running_loop()
    main_task = asyncio.current_task()

    def on_signal(number: signal.Signals) -> None:
        if interruption.reason is not None:
            os._exit(128 + number)
        if drain_on_sigterm and number == signal.SIGTERM:
            console.say("SIGTERM: nothing more is started; waiting for what is in flight (again to stop at once)")
            interruption.drain(number.name)
            return
        console.say(f"{number.name}: stopping, sessions are being closed (again to stop at once)")
        if not interruption.cancel(number.name) and main_task is not None:
            main_task.cancel(number.name)

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    # A container starts us with SIGTERM blocked: as PID 1 it would be lost before there is a handler.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
