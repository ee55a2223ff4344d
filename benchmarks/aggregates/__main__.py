"""Runs the same rows through nemo-gym's `compute_aggregate_metrics` and through ours; prints a table of the two."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.aggregates.rows import as_lines, rows
from benchmarks.aggregates.sameness import compare

from rollgym.driver.artifacts.paths import ArtifactPaths
from rollgym.driver.evals.aggregate import write_aggregate

PEER = Path(__file__).with_name("peer.py")
SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aggregates", description=__doc__)
    parser.add_argument("--rows", type=int, default=4096, help="how many rows (%(default)s)")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument(
        "--peer-venv",
        type=Path,
        required=True,
        help="virtual environment with nemo-gym 0.7 (benchmarks/drivers/setup_peer.sh makes one)",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text(as_lines(rows(arguments.rows, arguments.seed)))
        began = time.perf_counter()
        write_aggregate(ArtifactPaths(path))
        ours_s = time.perf_counter() - began
        ours = json.loads(ArtifactPaths(path).aggregate_metrics.read_bytes())[0]
        began = time.perf_counter()
        theirs = _of_peer(arguments.peer_venv / "bin" / "python", path)
        theirs_s = time.perf_counter() - began
    found = compare(theirs, ours)
    print(f"rows                       {arguments.rows:>12,}")
    print(f"shared values              {found.shared:>12,}")
    print(f"of them apart              {len(found.differing):>12,}   (largest relative difference {found.worst:.1e})")
    print(f"values that only they have {len(found.only_theirs):>12,}   {', '.join(found.only_theirs[:3])}")
    print(f"seconds, ours              {ours_s:>12.2f}")
    print(f"seconds, nemo-gym's        {theirs_s:>12.2f}   (imports included)")
    for line in found.differing[:SHOWN]:
        print(f"  {line}")
    return 1 if found.differing else 0


def _of_peer(python: Path, path: Path) -> Any:
    done = subprocess.run([str(python), str(PEER), str(path)], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(f"{python} {PEER.name} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
