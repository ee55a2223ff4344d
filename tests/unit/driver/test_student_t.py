"""Quantiles of Student's t against the values that scipy.stats.t.ppf gives."""

import pytest

from rollgym.driver.student_t import student_t


@pytest.mark.parametrize(
    ("p", "degrees", "expected"),
    [
        (0.975, 1, 12.706204736174696),
        (0.975, 2, 4.302652729749462),
        (0.975, 3, 3.182446305283708),
        (0.975, 5, 2.5705818356363146),
        (0.995, 7, 3.4994832973504924),
        (0.9999, 3, 22.203742273205),
        (0.975, 30, 2.0422724563012373),
        (0.95, 199, 1.6525467461665633),
        (0.975, 1999, 1.9611514201705613),
        (0.975, 2000, 1.9611508260994377),
        (0.975, 1_000_000, 1.959966356814107),
        (0.5, 10, 0.0),
        (0.025, 5, -2.5705818356363146),
    ],
)
def test_quantiles(p: float, degrees: int, expected: float) -> None:
    assert student_t(p, degrees) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_the_expansion_takes_over_without_a_step() -> None:
    before, after = student_t(0.975, 1999), student_t(0.975, 2000)
    assert 0 < before - after < 2e-6
