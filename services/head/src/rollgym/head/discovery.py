"""Prometheus' HTTP service discovery: one target per live process, so that replicas and drivers come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollgym.head.addresses import host_port
from rollgym.head.registry import Server

JOB_PREFIX = "rollgym-"
HEAD_NAME = "head"


def targets(live: Sequence[Server], head: tuple[str, int]) -> list[dict[str, Any]]:
    """The head itself and every server that is not gone: one that does not respond must show as down, not vanish.

    A server that has no metrics says `"metrics": false` in its metadata, one that has them elsewhere `"metrics_path"`.
    """
    found = [_target(host_port(*head), HEAD_NAME, HEAD_NAME, host_port(*head))]
    for server in live:
        registration = server.registration
        if registration.metadata.get("metrics") is False:
            continue
        address = host_port(registration.host, registration.port)
        target = _target(address, registration.name, registration.server_type, server.instance_id)
        path = registration.metadata.get("metrics_path")
        if isinstance(path, str) and path.startswith("/"):
            target["labels"]["__metrics_path__"] = path
        found.append(target)
    return found


def _target(address: str, name: str, server_type: str, instance: str) -> dict[str, Any]:
    labels = {"job": JOB_PREFIX + name, "instance": instance, "server_type": server_type}
    return {"targets": [address], "labels": labels}
