"""Seeded distributions: the same rollout takes the same time, whoever asks and in whatever order."""

import random
from statistics import fmean, median

import pytest

from rollgym.driver.simulate.latency import Latency, Schedule, rng_of


def test_each_form_draws_from_its_distribution() -> None:
    rng = random.Random(1)
    fixed, uniform, lognormal = (Latency.parse(text) for text in ("fixed:0.5", "uniform:0.2:1.0", "lognormal:2:0.5"))
    assert {fixed.draw(rng) for _ in range(10)} == {0.5}
    drawn = [uniform.draw(rng) for _ in range(4000)]
    assert min(drawn) >= 0.2
    assert max(drawn) <= 1.0
    assert fmean(drawn) == pytest.approx(uniform.mean_s, rel=0.05)
    drawn = [lognormal.draw(rng) for _ in range(4000)]
    assert median(drawn) == pytest.approx(2, rel=0.05)
    assert fmean(drawn) == pytest.approx(lognormal.mean_s, rel=0.05)


@pytest.mark.parametrize("text", ["fixed:0.5", "uniform:0.2:1", "lognormal:2:0.5"])
def test_a_latency_reads_what_it_writes(text: str) -> None:
    assert str(Latency.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gamma:1", "is no latency"),
        ("fixed", "is no latency"),
        ("uniform:1", "is no latency"),
        ("fixed:soon", "something else than numbers"),
        ("fixed:-1", "not negative"),
        ("fixed:inf", "finite"),
        ("fixed:nan", "finite"),
        ("uniform:2:1", "low end is above"),
        ("lognormal:0:1", "above 0"),
    ],
)
def test_what_is_no_latency_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Latency.parse(text)


def test_a_draw_depends_on_its_key_alone() -> None:
    uniform = Latency.parse("uniform:0:1")
    keys = [(task, rollout, attempt) for task in range(5) for rollout in range(5) for attempt in range(2)]
    forwards = {key: uniform.draw(rng_of(7, *key)) for key in keys}
    backwards = {key: uniform.draw(rng_of(7, *key)) for key in reversed(keys)}
    assert forwards == backwards
    assert len(set(forwards.values())) == len(keys)
    assert forwards != {key: uniform.draw(rng_of(8, *key)) for key in keys}


def test_an_open_loop_has_a_seeded_schedule_of_its_rate() -> None:
    first, again, other = (Schedule(50.0, rng_of(seed)) for seed in (3, 3, 4))
    offsets = [first.next_offset_s() for _ in range(4000)]
    assert offsets == [again.next_offset_s() for _ in range(4000)]
    assert offsets != [other.next_offset_s() for _ in range(4000)]
    assert offsets[0] == 0
    assert offsets == sorted(offsets)
    assert len(offsets) / offsets[-1] == pytest.approx(50, rel=0.05)
