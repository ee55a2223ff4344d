"""A policy that notes the state of this process's garbage collector at each rollout's start."""

import gc

from rollgym.driver.policies import CallClock, ModelTurn, OfflinePolicy, SeedAnswer, TurnRequest
from rollgym.driver.policies.items import assistant_message
from rollgym.driver.task_view import TaskView

Collector = tuple[tuple[int, ...], int]
SEEN: list[Collector] = []


def collector() -> Collector:
    """Thresholds and the number of frozen objects."""
    return gc.get_threshold(), gc.get_freeze_count()


class Watching(OfflinePolicy):
    """Says one word."""

    name = "watching"

    def start(self, task: TaskView, seed: SeedAnswer) -> "_Session":
        SEEN.append(collector())
        return _Session()


class _Session:
    async def respond(self, request: TurnRequest) -> ModelTurn:
        item = assistant_message("Done.", "msg_1")
        return ModelTurn.of([item], model=Watching.name, response_id="resp_1", clock=CallClock())
