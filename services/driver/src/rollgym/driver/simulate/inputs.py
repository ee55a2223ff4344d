"""Task files for simulated runs: rows with a history as long as production's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from rollgym.common import jsonx
from rollgym.driver.simulate.agent_fleet import AGENT_NAME
from rollgym.driver.simulate.results import history

BUILT_IN_ENV = "echo"


def write_tasks(path: Path, *, tasks: int, messages: int, characters: int, seed: int, built_in: bool = False) -> None:
    """Write `tasks` rows for the simulated agents, or with `built_in` for the driver's own agent in `echo`."""
    rng = random.Random(seed)
    whose: dict[str, Any] = (
        {"env": BUILT_IN_ENV} if built_in else {"agent_ref": {"type": "responses_api_agents", "name": AGENT_NAME}}
    )
    with path.open("wb") as file:
        for _ in range(tasks):
            row = {"responses_create_params": {"input": history(messages, characters, rng)}, **whose}
            file.write(jsonx.dumps(row) + b"\n")
