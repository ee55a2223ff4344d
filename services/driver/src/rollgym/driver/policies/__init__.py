"""Policies: what decides an agent's moves. `create_policy` builds the one that the settings name."""

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
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.policies.usage import Usage


def create_policy(settings: PolicySettings) -> Policy:
    """The policy that `settings` names. Opens nothing: use it as an async context manager for that.

    Raises ConfigurationError where one's own class cannot be loaded or built. Only the policy that plays is imported.
    """
    match settings.kind:
        case "scripted":
            from rollgym.driver.policies.scripted import ScriptedPolicy

            return ScriptedPolicy(settings)
        case "openai-responses":
            from rollgym.driver.policies.openai_responses import OpenAIResponsesPolicy

            return OpenAIResponsesPolicy(settings)
        case "openai-chat":
            from rollgym.driver.policies.openai_chat import OpenAIChatPolicy

            return OpenAIChatPolicy(settings)
        case reference:
            from rollgym.driver.policies.own import load_own_policy

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
