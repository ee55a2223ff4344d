"""What an environment is: the base class to inherit, and the models of its actions, observations and state.

An environment is one class: a `name`, a `description`, an `action_type`, and two methods. One instance serves one
session. It runs on the server's event loop: a method that takes long is `async` and awaits.

    class CoinToss(Environment[Call]):
        name, description, action_type = "coin-toss", "Call the toss of a coin.", Call

        def reset(self, arguments: ResetArguments) -> Observation: ...
        def step(self, action: Call) -> Observation: ...
"""

from __future__ import annotations

import inspect
import json
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError

Reward: TypeAlias = bool | int | float | None
_BESIDE = {"done", "reward", "metadata"}
"""Fields of an observation that stand beside it on the wire."""
SEED_BITS = 31


class EpisodeError(Exception):
    """The environment cannot do what it was asked; the session goes on (`EXECUTION_ERROR`, HTTP 409)."""


class NotReset(EpisodeError):
    """A step before the first reset."""

    def __init__(self) -> None:
        super().__init__("no episode: reset first (HTTP requests keep no session; episodes live on the WebSocket)")


class EpisodeOver(EpisodeError):
    """A step after the last one."""

    def __init__(self) -> None:
        super().__init__("the episode is over: reset starts a new one")


class Action(BaseModel):
    """What a step takes. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    metadata: dict[str, Any] = Field(default_factory=dict, description="Anything the caller wants to note")


class Observation(BaseModel):
    """What a reset or a step gives. A subclass adds its fields."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    done: bool = Field(False, description="Whether the episode has ended")
    reward: Reward = Field(None, description="Reward of this step; null where there is none yet")
    metadata: dict[str, Any] = Field(default_factory=dict, description="Notes beside the observation")

    def to_json(self) -> bytes:
        """The observation as OpenEnv sends it: fields under `observation`, reward and done beside it.

        NaN and the infinities, which are no JSON, are written as the words that Python's own `json` writes: what a
        client makes of them is the client's.
        """
        return msgspec.json.encode(self.wire_fields())

    def wire_fields(self) -> dict[str, Any]:
        """The members of the answer, encoded or encodable."""
        fields = {"observation": self._own_fields(), "reward": on_the_wire(self.reward), "done": self.done}
        if self.metadata:
            fields["metadata"] = self.metadata
        return fields

    def _own_fields(self) -> msgspec.Raw:
        try:
            return msgspec.Raw(self.model_dump_json(exclude=_BESIDE).encode())
        except PydanticSerializationError:  # a lone surrogate: no UTF-8, but JSON has an escape for it
            return msgspec.Raw(json.dumps(self.model_dump(exclude=_BESIDE)).encode("ascii"))


class State(BaseModel):
    """What `state` tells of an episode. A subclass adds its fields."""

    model_config = ConfigDict(extra="allow")

    episode_id: str | None = Field(None, description="Identifier of the episode, the caller's where it gave one")
    step_count: int = Field(0, ge=0, description="Steps taken in the episode")


class ResetArguments(BaseModel):
    """What a reset may be given. A subclass adds its own; unknown ones are ignored, as OpenEnv does."""

    model_config = ConfigDict(extra="ignore")

    seed: int | None = Field(
        None, ge=-(1 << 63), lt=1 << 63, description="Makes the episode reproducible; unset: drawn at random"
    )
    episode_id: str | None = Field(None, max_length=255, description="The caller's name for the episode")

    def seed_or_drawn(self) -> int:
        """The caller's seed, else a random one."""
        return secrets.randbits(SEED_BITS) if self.seed is None else self.seed


ActionT = TypeVar("ActionT", bound=Action)
Answer: TypeAlias = Observation | Awaitable[Observation]


class Environment(ABC, Generic[ActionT]):
    """Base of every environment. `begin` and `act` are the server's way in: they check, count, and call yours."""

    name: ClassVar[str]
    description: ClassVar[str]
    version: ClassVar[str] = "1.0.0"
    action_type: ClassVar[type[Action]]
    observation_type: ClassVar[type[Observation]] = Observation
    state_type: ClassVar[type[State]] = State
    reset_type: ClassVar[type[ResetArguments]] = ResetArguments

    def __init__(self) -> None:
        self.episode_id: str | None = None
        self.step_count = 0

    @abstractmethod
    def reset(self, arguments: Any) -> Answer:
        """Start an episode; `arguments` is a `reset_type`. May be `async`."""

    @abstractmethod
    def step(self, action: ActionT) -> Answer:
        """Take one step. Raise `EpisodeOver` or another `EpisodeError` to refuse it. May be `async`."""

    def state(self) -> State:
        """The episode's state; a subclass with a `state_type` of its own returns that."""
        return self.state_type(episode_id=self.episode_id, step_count=self.step_count)

    def close(self) -> None:
        """Give back what the episode holds. Called once, however the session ends."""

    @classmethod
    def parse_action(cls, data: Any) -> Action:
        """Check an action's fields. Raises pydantic's ValidationError."""
        return cls.action_type.model_validate(data)

    async def begin(self, data: Any) -> Observation:
        """Reset with unchecked arguments. Raises ValidationError, EpisodeError, or what `reset` raises."""
        arguments = self.reset_type.model_validate(data)
        self.episode_id = arguments.episode_id or secrets.token_hex(16)
        self.step_count = 0
        return await _answered(self.reset(arguments))

    async def act(self, data: Any) -> Observation:
        """Step with an unchecked action. Raises ValidationError, EpisodeError, or what `step` raises."""
        action = self.parse_action(data)
        observation = await _answered(self.step(action))  # type: ignore[arg-type]  # parse_action gives an ActionT
        self.step_count += 1
        return observation


async def _answered(answer: Answer) -> Observation:
    return (await answer) if inspect.isawaitable(answer) else answer


def on_the_wire(reward: Reward) -> Any:
    """A reward as JSON has it; NaN and the infinities as the bare words that Python's own `json` writes."""
    if isinstance(reward, float) and not math.isfinite(reward):
        return msgspec.Raw(b"NaN" if math.isnan(reward) else b"Infinity" if reward > 0 else b"-Infinity")
    return reward
