"""The environment `echo`: answers what it is told, as late, as large and as wrong as it is told. For tests and latency.

The wrong answers are the ones that real environments have given: a reward that is no number, one that is missing, an
observation with bytes that are no text. They are spliced into the frame as they are.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, ClassVar, Literal

import msgspec
from pydantic import Field, PrivateAttr

from rollgym.env_bundle.environment import (
    Action,
    Environment,
    EpisodeError,
    EpisodeOver,
    NotReset,
    Observation,
    ResetArguments,
    Reward,
    State,
)

LARGEST_BYTES = 64 * 1024 * 1024
LONGEST_S = 3600.0


class EchoReset(ResetArguments):
    """A reset that may itself be slow or fail."""

    done_after: int | None = Field(None, ge=1, description="Steps after which the episode ends by itself")
    delay_s: float = Field(0.0, ge=0, le=LONGEST_S, description="Seconds before the answer")
    fail: str | None = Field(None, description="Answer with EXECUTION_ERROR and this message")


class EchoAction(Action):
    """What to answer, and how."""

    message: str = Field("", description="Comes back in the observation")
    reward: Reward = Field(0.0, description="Reward of this step")
    done: bool = Field(False, description="End the episode with this step")
    delay_s: float = Field(0.0, ge=0, le=LONGEST_S, description="Seconds before the answer")
    size: int = Field(0, ge=0, le=LARGEST_BYTES, description="Bytes of padding in the observation")
    fail: str | None = Field(None, description="Answer with EXECUTION_ERROR and this message")
    raw_reward: str | None = Field(None, description='JSON or no JSON put where the reward goes: NaN, 1e999, "0.5"')
    raw_observation_hex: str | None = Field(
        None, pattern=r"^([0-9a-fA-F]{2})+$", description="Bytes, in hexadecimal, put where the observation goes"
    )
    omit: list[Literal["observation", "reward", "done"]] = Field(
        default_factory=list, description="Fields that the answer leaves out"
    )

    @property
    def spoils(self) -> bool:
        """Whether the answer is to be wrong."""
        return bool(self.omit) or self.raw_reward is not None or self.raw_observation_hex is not None


class EchoObservation(Observation):
    """The message, and enough to tell sessions apart."""

    message: str
    seed: int | None = None
    step: int = 0
    padding: str = ""


class SpoiledObservation(EchoObservation):
    """An observation with something wrong about it."""

    _raw: dict[str, bytes] = PrivateAttr(default_factory=dict)
    _omit: list[str] = PrivateAttr(default_factory=list)

    def spoil(self, action: EchoAction) -> None:
        """Take over what the action wants wrong."""
        if action.raw_reward is not None:
            self._raw["reward"] = action.raw_reward.encode()
        if action.raw_observation_hex is not None:
            self._raw["observation"] = bytes.fromhex(action.raw_observation_hex)
        self._omit = list(action.omit)

    def wire_fields(self) -> dict[str, Any]:
        fields = super().wire_fields()
        fields.update({name: msgspec.Raw(raw) for name, raw in self._raw.items()})
        return {name: value for name, value in fields.items() if name not in self._omit}


class EchoState(State):
    """The episode's state."""

    seed: int | None = None


class Echo(Environment[EchoAction]):
    """Says what it is told."""

    name: ClassVar[str] = "echo"
    description: ClassVar[str] = "Answers the message it is given, with the reward, the delay and the size asked for."
    action_type: ClassVar[type[Action]] = EchoAction
    observation_type: ClassVar[type[Observation]] = EchoObservation
    state_type: ClassVar[type[State]] = EchoState
    reset_type: ClassVar[type[ResetArguments]] = EchoReset

    def __init__(self) -> None:
        super().__init__()
        self._seed: int | None = None
        self._instance = secrets.token_hex(4)
        self._steps, self._done_after, self._running, self._over = 0, 0, False, False

    async def reset(self, arguments: EchoReset) -> Observation:
        await _pause(arguments.delay_s)
        if arguments.fail is not None:
            raise EpisodeError(arguments.fail)
        self._seed, self._done_after = arguments.seed, arguments.done_after or 0
        self._steps, self._running, self._over = 0, True, False
        return EchoObservation(message=f"instance {self._instance} is ready", seed=self._seed)

    async def step(self, action: EchoAction) -> Observation:
        if not self._running:
            raise NotReset
        if self._over:
            raise EpisodeOver
        await _pause(action.delay_s)
        if action.fail is not None:
            raise EpisodeError(action.fail)
        self._steps += 1
        self._over = action.done or self._steps == self._done_after
        told: dict[str, Any] = {
            "message": action.message,
            "seed": self._seed,
            "step": self._steps,
            "padding": "x" * action.size,
            "reward": action.reward,
            "done": self._over,
        }
        if not action.spoils:
            return EchoObservation(**told)
        spoiled = SpoiledObservation(**told)
        spoiled.spoil(action)
        return spoiled

    def state(self) -> State:
        return EchoState(episode_id=self.episode_id, step_count=self.step_count, seed=self._seed)


async def _pause(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)
