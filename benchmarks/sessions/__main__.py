"""`python -m benchmarks.sessions [busy|herd|load|all]`: prints tables, writes JSON, exits 1 where a check misses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.sessions import busy, herd, load
from benchmarks.sessions.tables import judge, save, show


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("which", nargs="?", default="all", choices=["all", "busy", "herd", "load"])
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder for the JSON")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 64, 256, 1024], help="load: how many at once")
    parser.add_argument("--seconds", type=float, default=4.0, help="load: seconds per measurement")
    parser.add_argument("--rounds", type=int, default=2, help="load: measurements of each, the ways in turn")
    parser.add_argument("--idle-sessions", type=int, default=1024, help="load: sessions whose memory is measured")
    parser.add_argument("--speed", type=float, default=10.0, help="busy: how many times faster than real time")
    options = parser.parse_args(argv)
    good = True
    for name, benchmark in (("busy", busy), ("herd", herd), ("load", load)):
        if options.which not in ("all", name):
            continue
        rows, checks = benchmark.run(options)
        show(name, rows)
        good &= judge(checks)
        save(options.out, name, rows, checks)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
