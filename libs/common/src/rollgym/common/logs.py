"""Logging of a process on stderr, with no secret in it: a JSON object a line, or plain lines for a command."""

import contextlib
import logging
import queue
import sys
import threading
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from rollgym.common.redaction import redact

LEVELS = ("debug", "info", "warning", "error")
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
"""Tracebacks as data, without local variables: what they hold may be a secret under any name, or megabytes."""

_MOST_QUEUED = 10_000
FLUSH_TIMEOUT_S = 1.0


class PatientHandler(logging.Handler):
    """Writes lines from a thread of its own: a reader that stopped reading never stops the program.

    Lines that nobody takes are dropped once 10,000 wait. `flush` and `close` wait up to a second for the rest.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._queue: queue.Queue[str | threading.Event | None] = queue.Queue(_MOST_QUEUED)
        self._thread = threading.Thread(target=self._write, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(line + "\n")

    def flush(self) -> None:
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(written)
            if self._thread.is_alive():
                written.wait(FLUSH_TIMEOUT_S)

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(FLUSH_TIMEOUT_S)
        super().close()

    def _write(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            with contextlib.suppress(OSError, ValueError):  # a closed stream: nobody is there to be told
                self._stream.write(item)
                self._stream.flush()


def _redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    cleaned: MutableMapping[str, Any] = redact(event)
    return cleaned


def configure_logging(service: str, level: str = "info", *, plain: bool = False) -> None:
    """Send structlog's and the standard library's records to stderr. Called once, by `main`.

    JSON lines for a service; with `plain`, lines for the person who runs a command.
    """

    def named(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
        return event

    shared: list[structlog.typing.Processor] = [
        named,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if plain else _TRACEBACKS,
        _redacted,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = PatientHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:-1], structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _redacted,
                structlog.dev.ConsoleRenderer(
                    colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
                )
                if plain
                else structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    before, root.handlers[:] = list(root.handlers), [handler]
    for old in before:
        if isinstance(old, PatientHandler):
            old.close()
    root.setLevel(level.upper())
    for noisy in ("uvicorn.access", "uvicorn.error", "httpx", "httpcore", "websockets", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module; `bind(rollout_id=…)` puts a field on every line."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
