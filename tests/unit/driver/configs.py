"""Configurations as tests want them."""

from pathlib import Path
from typing import Any

from rollgym.driver.config import RolloutCollectionConfig


def config(folder: Path, **settings: Any) -> RolloutCollectionConfig:
    """A valid configuration over `folder`: tasks.jsonl in, out/rollouts.jsonl out."""
    given = {"input_jsonl_fpath": folder / "tasks.jsonl", "output_jsonl_fpath": folder / "out" / "rollouts.jsonl"}
    return RolloutCollectionConfig.model_validate(given | settings)
