"""Errors of the driver that end its command, beside those that every process shares."""

from __future__ import annotations

from rollgym.common.errors import RollgymError


class ServeError(RollgymError):
    """A server of an embedded run did not start, or died before it was ready."""

    code = "serve"
