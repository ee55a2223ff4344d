"""How the scripted policy talks to the environment `echo`: three messages, the last one ending the episode."""

from rollgym.common import jsonx
from rollgym.driver.policies.protocol import SeedAnswer
from rollgym.driver.policies.scripted.script import Call, Script

MESSAGES = ("one", "two", "three")


def play(seed: SeedAnswer, skill: str) -> Script:
    """Say three things. Where the tool takes a reward and an end, they add up to 1 and the third ends it."""
    takes_reward = _takes(seed, "reward")
    for number, message in enumerate(MESSAGES, start=1):
        arguments: dict[str, object] = {"message": message}
        if takes_reward:
            last = number == len(MESSAGES)
            arguments.update(reward=0.5 if last else 0.25, done=last)
        yield [Call("step", arguments)]
    return "I have said it all."


def _takes(seed: SeedAnswer, argument: str) -> bool:
    for encoded in seed.tools:
        tool = jsonx.loads(encoded)
        if tool.get("name") == "step":
            return argument in ((tool.get("parameters") or {}).get("properties") or {})
    return False
