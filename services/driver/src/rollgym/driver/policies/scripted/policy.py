"""The scripted policy: picks a script for the task, and turns what it yields into Responses items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollgym.common import jsonx
from rollgym.common.errors import BadRequest, ModelError
from rollgym.driver.policies.items import assistant_message, function_call, read_head
from rollgym.driver.policies.protocol import CallClock, ModelTurn, OfflinePolicy, SeedAnswer, TurnRequest
from rollgym.driver.policies.scripted import echo, gridsim, replay, wordle
from rollgym.driver.policies.scripted.script import Call, GaveUp, Script
from rollgym.driver.policies.settings import PolicySettings
from rollgym.driver.task_view import TaskView

SKILLS = ("novice", "competent", "expert")
DEFAULT_SKILL = "competent"
_SCRIPTS: Mapping[str, Callable[[SeedAnswer, str], Script]] = {
    "gridsim": gridsim.play,
    "wordle": wordle.play,
    "echo": echo.play,
}


class ScriptedPolicy(OfflinePolicy):
    """Plays gridsim, wordle and echo, or the calls that the row lists. Uses no tokens, so it reports none."""

    name = "scripted"

    def __init__(self, settings: PolicySettings) -> None:
        self._skill = settings.skill

    def start(self, task: TaskView, seed: SeedAnswer) -> "_Session":
        """Begin one rollout. Raises BadRequest (terminal) where there is no script for the task."""
        return _Session(self._script(task, seed), task.rollout_id)

    def _script(self, task: TaskView, seed: SeedAnswer) -> Script:
        hints = task.scripted
        if hints is not None and (listed := bytes(hints.calls)):
            return replay.play(jsonx.loads(listed))
        skill = self._skill or (hints.skill if hints is not None else None) or DEFAULT_SKILL
        if skill not in SKILLS:
            raise BadRequest(f"scripted.skill {skill!r} is none of {', '.join(SKILLS)}", terminal=True)
        environment = task.env or seed.env
        script = _SCRIPTS.get(environment or "")
        if script is None:
            raise BadRequest(
                f"the scripted policy knows {', '.join(_SCRIPTS)}, not {environment!r}: give the task scripted.calls, "
                "or use another policy",
                terminal=True,
            )
        return script(seed, skill)


class _Session:
    def __init__(self, script: Script, rollout_id: str) -> None:
        self._script = script
        self._rollout_id = rollout_id
        self._closing: str | None = None

    async def respond(self, request: TurnRequest) -> ModelTurn:
        clock = CallClock()
        move = self._next_move(request)
        identity = f"{self._rollout_id}_{request.turn_no}"
        if isinstance(move, str):
            output = [assistant_message(move, f"msg_{identity}")]
        else:
            output = [_call_item(call, f"{identity}_{place}") for place, call in enumerate(move)]
        return ModelTurn.of(output, model="scripted", response_id=f"resp_{identity}", clock=clock, dialect="scripted")

    def _next_move(self, request: TurnRequest) -> Sequence[Call] | str:
        if self._closing is not None:
            return self._closing
        try:
            if request.turn_no == 1:
                return next(self._script)
            return self._script.send(latest_results(request.items))
        except StopIteration as end:
            self._closing = str(end.value)
        except GaveUp as end:
            self._closing = f"I give up: {end}"
        except (KeyError, IndexError, TypeError) as error:
            raise ModelError(
                f"the script cannot read what the environment answered: {error!r}", terminal=True
            ) from error
        return self._closing


def latest_results(items: Sequence[bytes]) -> list[Any]:
    """What the tools answered to the last turn's calls, in order; JSON is decoded, other text stays text."""
    results: list[Any] = []
    for item in reversed(items):
        if read_head(item).type != "function_call_output":
            break
        results.append(_decoded(jsonx.loads(item)["output"]))
    return results[::-1]


def _decoded(output: Any) -> Any:
    try:
        return jsonx.loads(output) if isinstance(output, str) else output
    except ValueError:
        return output


def _call_item(call: Call, identity: str) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else jsonx.dumps(dict(call.arguments)).decode()
    return function_call(call.tool, arguments, f"call_{identity}", f"fc_{identity}")
