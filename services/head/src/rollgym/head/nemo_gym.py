"""The two routes that NeMo Gym's clients read, as its 0.7 release reads them.

`ServerClient` takes the first type and the first implementation under a server's name and calls its `host` and `port`;
`gym env status` wants `process_name`, `server_type` and `name` of every instance.

Replicas of one name: the longest running one that is up has the plain name, the others their instance id. A client
that knows only the plain name gets a server that is there, and one that reads all entries finds all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from rollgym.head.registry import Server, ServerStatus

CONFIGURED_TYPES = frozenset(
    {"resources_servers", "responses_api_agents", "responses_api_models", "environment_servers"}
)
_STATUS = {
    ServerStatus.UP: "success",
    ServerStatus.NOT_RESPONDING: "timeout",
    ServerStatus.GONE: "connection_error",
}


def config_names(servers: Sequence[Server]) -> dict[str, Server]:
    """A key of the configuration for each server: the plain name for the first, instance ids for its replicas."""
    names: dict[str, Server] = {}
    for server in servers:
        name = server.registration.name
        key = name if name not in names else server.instance_id
        if key in names:
            key = f"{name}@{server.instance_id}"
        names[key] = server
    return names


def config_yaml(live: Sequence[Server], head: tuple[str, int]) -> str:
    """YAML: server name -> {type: {implementation: {host, port, …}}}, and `head_server`."""
    config: dict[str, Any] = {"head_server": {"host": head[0], "port": head[1]}}
    configured = [server for server in live if server.registration.server_type in CONFIGURED_TYPES]
    for name, server in config_names(configured).items():
        registration = server.registration
        config[name] = {registration.server_type: {registration.implementation: _entry(server)}}
    text: str = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    return text


def _entry(server: Server) -> dict[str, Any]:
    """What a client needs of one server, over what it published itself under `metadata.config`."""
    registration = server.registration
    published = registration.metadata.get("config")
    entry = dict(_literal(published)) if isinstance(published, Mapping) else {}
    envs = registration.metadata.get("envs")
    if isinstance(envs, list):
        entry.setdefault("envs", _literal(envs))
    own = {
        "host": registration.host,
        "port": registration.port,
        "url": registration.url,
        "instance_id": server.instance_id,
    }
    return {**own, **entry, **own}


def _literal(value: Any) -> Any:
    """The value with OmegaConf's interpolations escaped: what a server published is data, never a reference."""
    if isinstance(value, str):
        return value.replace("${", "\\${")
    if isinstance(value, Mapping):
        return {str(key): _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value


def server_instances(live: Sequence[Server]) -> list[dict[str, Any]]:
    """One object per live server. `status` is in NeMo Gym's words, `rollgym_status` in ours."""
    return [
        {
            "process_name": process_name,
            "name": server.registration.name,
            "server_type": server.registration.server_type,
            "implementation": server.registration.implementation,
            "instance_id": server.instance_id,
            "host": server.registration.host,
            "port": server.registration.port,
            "url": server.registration.url,
            "pid": server.registration.pid,
            "status": _STATUS[server.status],
            "rollgym_status": server.status.value,
            "start_time": server.registration.started_at,
            "uptime_seconds": max(0.0, time.time() - server.registration.started_at),
        }
        for process_name, server in config_names(live).items()
    ]
