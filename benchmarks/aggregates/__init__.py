"""Our aggregate of a results file against nemo-gym's own, key by key: `python -m benchmarks.aggregates`."""
