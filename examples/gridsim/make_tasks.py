"""Writes tasks.jsonl: 200 days of the grid, one task a line. Run it after changing the prompt or the days.

python examples/gridsim/make_tasks.py > examples/gridsim/tasks.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from rollgym.env_bundle.environments.gridsim.day import make_day

DAYS = 200
SKILLS = ("novice", "competent", "expert")

INSTRUCTIONS = """\
You run a small power grid for one day. Hour by hour, from hour 0 to hour 23, you set three plants for the coming \
hour, before you know what demand, wind and sun will be in it.

- Steam unit: 60 to 220 MW at 22 per MWh. It moves at most 12 MW from one hour to the next.
- Peaker: 0 to 200 MW at 95 per MWh. It moves freely.
- Battery: 240 MWh, half full at midnight, 60 MW either way. 5 % is lost on the way in and again on the way out. A \
positive set point discharges, a negative one charges. What it holds at the end of the day more or less than at the \
beginning counts at 22 per MWh.

Net demand is demand less wind and sun. Whatever net demand the plants do not meet costs 400 per MWh. What they make \
beyond it is lost, and paid for all the same.

Tools: get_state tells what each plant can reach in the coming hour and how the last one went. get_forecast tells what \
is expected; the near hours are more certain than the far ones. dispatch sets the plants and lives through the hour. \
Only dispatch moves the clock; call it 24 times.

The day's cost is compared with an operator who leaves steam where it stands and lets the peaker do the rest (0) and \
with a perfect plan made with hindsight (1). Look ahead: steam is slow, the evening peak is not.\
"""


def tasks() -> Iterator[dict[str, Any]]:
    """The task rows; the seed is the day."""
    for seed in range(DAYS):
        day, skill = make_day(seed), SKILLS[seed % len(SKILLS)]
        request = (
            f"It is midnight on day {day.day_of_year + 1} of the year, a {day.season} day. Run the grid until midnight."
        )
        yield {
            "responses_create_params": {
                "input": [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": request}]
            },
            "env": "gridsim",
            "seed": seed,
            "tags": {"season": day.season, "skill": skill},
            "scripted": {"skill": skill},
        }


def main() -> None:
    for task in tasks():
        sys.stdout.write(json.dumps(task) + "\n")


if __name__ == "__main__":
    main()
