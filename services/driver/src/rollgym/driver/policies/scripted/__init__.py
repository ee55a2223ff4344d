"""The scripted policy: plays the bundled environments without a model, the same way every time."""

from rollgym.driver.policies.scripted.policy import ScriptedPolicy

__all__ = ["ScriptedPolicy"]
