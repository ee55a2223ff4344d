"""Policies: what decides an agent's moves. `create_policy` builds the one that the settings name."""

from rollgym.driver.policies.openai_chat import OpenAIChatPolicy
from rollgym.driver.policies.openai_responses import OpenAIResponsesPolicy
from rollgym.driver.policies.own import load_own_policy
from rollgym.driver.policies.protocol import (
    CallClock,
    CallTiming,
    ModelTurn,
    OfflinePolicy,
    Policy,
    PolicySession,
    SeedAnswer,
    TurnRequest,
)
from rollgym.driver.policies.scripted import ScriptedPolicy
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.policies.usage import Usage


def create_policy(settings: PolicySettings) -> Policy:
    """The policy that `settings` names. Opens nothing: use it as an async context manager for that.

    Raises ConfigurationError where one's own class cannot be loaded or built.
    """
    match settings.kind:
        case "scripted":
            return ScriptedPolicy(settings)
        case "openai-responses":
            return OpenAIResponsesPolicy(settings)
        case "openai-chat":
            return OpenAIChatPolicy(settings)
        case reference:
            return load_own_policy(reference, settings.options)


__all__ = [
    "CallClock",
    "CallTiming",
    "ModelTurn",
    "OfflinePolicy",
    "Policy",
    "PolicySession",
    "PolicySettings",
    "SeedAnswer",
    "TurnRequest",
    "Usage",
    "create_policy",
]
