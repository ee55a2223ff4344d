"""One task row as the built-in agent sees it: the row's bytes, and the few fields that steer a rollout."""

from dataclasses import dataclass
from typing import Any

import msgspec

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest
from rollgym.driver.encoded import fields_of, struct_of

_ID_FIELDS = ("task_id", "problem_id", "instance_id", "_ng_task_index")


class ScriptedHints(msgspec.Struct, frozen=True, gc=False):
    """The row's `scripted` object: how the scripted policy should play it."""

    skill: str | None = None
    calls: msgspec.Raw = msgspec.Raw()
    """Turns to replay, still encoded, for tasks of any environment; empty where there are none. See
    `policies.scripted.replay`."""


class _Steering(msgspec.Struct, frozen=True, gc=False):
    env: str | None = None
    seed: int | None = None
    scripted: ScriptedHints | None = None


_steering_decoder = msgspec.json.Decoder(_Steering)


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task row. `raw` goes to the resources server as it is; nothing of it is held as objects but `params`' keys."""

    raw: bytes
    params: dict[str, msgspec.Raw]
    """`responses_create_params`: each value still encoded."""
    task_id: str
    rollout_id: str
    env: str | None = None
    seed: int | None = None
    scripted: ScriptedHints | None = None

    @classmethod
    def decode(cls, raw: bytes, *, task_id: str | None = None, rollout_id: str | None = None) -> "TaskView":
        """The view of one row's JSON. Ids default to the row's own, built as NeMo Gym builds them.

        Raises BadRequest (terminal) where the row is no object, or a field has the wrong type.
        """
        try:
            fields = fields_of(raw)
            params = fields_of(fields["responses_create_params"])
            steering = struct_of(raw, _steering_decoder)
        except KeyError as error:
            raise BadRequest("the task row has no responses_create_params", terminal=True) from error
        except ValueError as error:
            raise BadRequest(f"the task row cannot be read: {error}", terminal=True) from error
        return cls(
            raw=raw,
            params=params,
            task_id=task_id or _task_id(fields),
            rollout_id=rollout_id or _rollout_id(fields),
            env=steering.env,
            seed=steering.seed,
            scripted=steering.scripted,
        )

    def param(self, name: str) -> Any:
        """One field of `responses_create_params`, decoded; None where it is absent."""
        value = self.params.get(name)
        return None if value is None else jsonx.loads(bytes(value))


def _task_id(fields: dict[str, msgspec.Raw]) -> str:
    for name in _ID_FIELDS:
        value = _scalar(fields, name)
        if value is not None:
            return str(value)
    return "unknown"


def _rollout_id(fields: dict[str, msgspec.Raw]) -> str:
    task, rollout = _scalar(fields, "_ng_task_index"), _scalar(fields, "_ng_rollout_index")
    attempt = _scalar(fields, "_ng_attempt_index")
    identity = f"{task}-{rollout}" if task is not None and rollout is not None else "unknown"
    return f"{identity}-a{attempt}" if isinstance(attempt, int) and attempt > 0 else identity


def _scalar(fields: dict[str, msgspec.Raw], name: str) -> str | int | None:
    value = jsonx.loads(bytes(fields[name])) if name in fields else None
    return value if isinstance(value, str | int) else None
