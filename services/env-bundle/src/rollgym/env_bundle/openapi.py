"""The OpenAPI document of one environment: what its paths take and give. OpenEnv's tools read it to know the server."""

from __future__ import annotations

from typing import Any

from rollgym.env_bundle.registry import EnvironmentType

_JSON = "application/json"


def document(environment: EnvironmentType, base_path: str = "") -> dict[str, Any]:
    """The document of an environment that is served under `base_path`."""
    action = environment.action_type.model_json_schema()
    result = {"type": "object", "properties": {"observation": {}, "reward": {}, "done": {"type": "boolean"}}}
    step = {"type": "object", "required": ["action"], "properties": {"action": action}}
    paths = {
        "/health": {"get": _operation("Health check")},
        "/metadata": {"get": _operation("Name and description of the environment")},
        "/schema": {"get": _operation("JSON schemas of action, observation and state")},
        "/state": {"get": _operation("State of a fresh instance; episodes live on the WebSocket")},
        "/reset": {"post": _operation("Reset a fresh instance", environment.reset_type.model_json_schema(), result)},
        "/step": {"post": _operation("One step of a fresh instance", step, result)},
        "/mcp": {"post": _operation("MCP tools/list and tools/call as JSON-RPC 2.0", {"type": "object"})},
    }
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": environment.name,
            "description": environment.description,
            "version": environment.version,
        },
        "paths": paths,
    }
    if base_path:
        described["servers"] = [{"url": base_path}]
    return described


def schemas(environment: EnvironmentType) -> dict[str, Any]:
    """What ``GET /schema`` answers."""
    return {
        "action": environment.action_type.model_json_schema(),
        "observation": environment.observation_type.model_json_schema(),
        "state": environment.state_type.model_json_schema(),
    }


def _operation(
    summary: str, body: dict[str, Any] | None = None, result: dict[str, Any] | None = None
) -> dict[str, Any]:
    content = {_JSON: {"schema": result or {"type": "object"}}}
    operation: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "OK", "content": content}}}
    if body is not None:
        operation["requestBody"] = {"content": {_JSON: {"schema": body}}}
    return operation
