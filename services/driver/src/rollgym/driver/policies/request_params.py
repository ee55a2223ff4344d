"""What a task row asks of the model's endpoint, beside the conversation: its parameters, and which model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.task_view import TaskView

DRIVER_OWNED = frozenset({"input", "messages", "tools", "model", "stream", "stream_options"})
"""Fields that the driver writes itself, whatever the row says."""


@dataclass(frozen=True, slots=True)
class RowParams:
    """A row's parameters. `extra` are those of `metadata.extra_body`: fields for this server alone, which yield to
    `given` and are never renamed."""

    given: Mapping[str, msgspec.Raw]
    extra: Mapping[str, Any]

    @classmethod
    def of(cls, task: TaskView) -> "RowParams":
        """Read them from `responses_create_params`. Raises BadRequest (terminal) for an unreadable extra_body."""
        given = {name: value for name, value in task.params.items() if name not in DRIVER_OWNED}
        metadata = task.param("metadata")
        if not isinstance(metadata, dict) or "extra_body" not in metadata:
            return cls(given, {})
        extra = _extra_body(metadata.pop("extra_body"))
        given.pop("metadata")
        if metadata:
            given["metadata"] = msgspec.Raw(jsonx.dumps(metadata))
        return cls(given, {name: value for name, value in extra.items() if name not in DRIVER_OWNED})


def _extra_body(value: Any) -> dict[str, Any]:
    """`metadata` holds texts, so the object is usually the JSON text of one."""
    try:
        extra = jsonx.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadRequest(f"metadata.extra_body is no JSON: {error}", terminal=True) from error
    if not isinstance(extra, dict):
        raise BadRequest("metadata.extra_body must be a JSON object", terminal=True)
    return extra


def model_name(settings: PolicySettings, task: TaskView) -> str:
    """The model to ask: the settings' own, else the row's. Raises BadRequest (terminal) where there is none."""
    model = settings.model or task.param("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("no model: set policy.model, or responses_create_params.model in the task row", terminal=True)
    return model
