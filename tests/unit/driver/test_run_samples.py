"""A run's samples: what is in a line, and that they never stop a run."""

from pathlib import Path

import msgspec
import pytest

from rollgym.driver.run_samples import RunSamples, Sample
from waiting import eventually


def lines(path: Path) -> list[Sample]:
    return [msgspec.json.decode(line, type=Sample) for line in path.read_bytes().splitlines()]


def test_a_sample_is_over_the_time_since_the_last_one(tmp_path: Path) -> None:
    samples = RunSamples(tmp_path / "s.jsonl", lambda: 7)
    for lag_s in (0.001, 0.003):
        samples.on_lag(lag_s)
    samples.on_pause(2, 0.25)
    samples.on_pause(0, 0.05)
    first, second = samples.take(), samples.take()
    assert (first.in_flight, first.lag_max_ms, first.lag_mean_ms) == (7, 3.0, 2.0)
    assert (first.gc_pause_max_ms, first.gc_pause_sum_ms, first.gc_collections) == (250.0, 300.0, (1, 0, 1))
    assert (second.lag_max_ms, second.lag_mean_ms, second.gc_collections) == (0.0, 0.0, (0, 0, 0))


async def test_samples_are_taken_at_the_start_in_between_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    samples = RunSamples(path, lambda: 0)
    async with samples.sampling(interval_s=0.01):
        await eventually(lambda: len(lines(path)) >= 3)
        samples.on_pause(0, 9.0)
    assert max(sample.gc_pause_max_ms for sample in lines(path)) == 9000.0


async def test_a_resumed_run_goes_on_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    for _ in range(2):
        async with RunSamples(path, lambda: 0).sampling():
            pass
    assert len(lines(path)) == 4


async def test_a_file_that_cannot_be_written_stops_no_run(tmp_path: Path) -> None:
    async with RunSamples(tmp_path / "no-folder" / "s.jsonl", lambda: 0).sampling():
        pass


async def test_the_error_of_the_block_goes_on_up(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with RunSamples(tmp_path / "s.jsonl", lambda: 0).sampling():
            raise KeyError
