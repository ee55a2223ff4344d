"""Logging of a process on stderr, with no secret in it: a JSON object a line, or plain lines for a command."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from rollgym.common.redaction import redact

LEVELS = ("debug", "info", "warning", "error")


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
        *([] if plain else [structlog.processors.dict_tracebacks]),
        _redacted,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:-1], structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _redacted,
                structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
                if plain
                else structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn.access", "uvicorn.error", "httpx", "httpcore", "websockets", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module; `bind(rollout_id=…)` puts a field on every line."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
