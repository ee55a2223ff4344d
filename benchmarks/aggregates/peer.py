"""nemo-gym's side of the comparison, for nemo-gym's own interpreter: ROWS.jsonl in, its aggregate out as JSON."""

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from nemo_gym.reward_profile import (  # type: ignore[import-not-found]  # noqa: E402  (nemo-gym is not installed here)
    add_avg_sample_std_dev,
    compute_aggregate_metrics,
    compute_pass_majority_metrics,
)


def pass_metrics(tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """What nemo-gym's benchmarks do in their `compute_metrics`."""
    metrics, scores, names, most = compute_pass_majority_metrics(tasks)
    add_avg_sample_std_dev(metrics, scores, names, most)
    return dict(metrics)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    answer = compute_aggregate_metrics(rows, compute_metrics_fn=pass_metrics)
    json.dump(answer.model_dump(mode="json"), sys.stdout)


if __name__ == "__main__":
    main()
