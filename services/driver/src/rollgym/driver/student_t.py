"""Quantiles of Student's t, for intervals of means; exact to about 1e-12, with no library behind them."""

from __future__ import annotations

import math
from statistics import NormalDist

_EXPANSION_ALONE = 2000
_NEWTON_STEPS = 20
_TINY = 1e-300


def student_t(p: float, degrees: int) -> float:
    """The p-quantile of Student's t with `degrees` of freedom, 1 or more; 0 < p < 1.

    Closed forms for 1 and 2 degrees. Beyond: Hill's expansion, then Newton's steps on the distribution function.
    From 2,000 degrees on the expansion alone is exact enough.
    """
    if p < 0.5:
        return -student_t(1 - p, degrees)
    if degrees == 1:
        return math.tan(math.pi * (p - 0.5))
    if degrees == 2:
        a = 2 * p - 1
        return a * math.sqrt(2 / (1 - a * a))
    t = _expansion(p, degrees)
    if degrees >= _EXPANSION_ALONE:
        return t
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    for _ in range(_NEWTON_STEPS):
        density = math.exp(log_scale - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = (_upper_tail(t, degrees) - (1 - p)) / density
        t += step
        if abs(step) <= 1e-14 * max(1.0, abs(t)):
            break
    return t


def _expansion(p: float, degrees: int) -> float:
    """Source: G. W. Hill, Algorithm 396, CACM 13 (1970), its Cornish-Fisher form."""
    z, n = NormalDist().inv_cdf(p), float(degrees)
    z2 = z * z
    terms = (
        z,
        z * (z2 + 1) / 4,
        z * ((5 * z2 + 16) * z2 + 3) / 96,
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return sum(term / n**power for power, term in enumerate(terms))


def _upper_tail(t: float, degrees: int) -> float:
    """P(T > t): half the regularized incomplete beta function I_x(n/2, 1/2) at x = n / (n + t²), for t ≥ 0."""
    if t <= 0:
        return 0.5 if t == 0 else 1 - _upper_tail(-t, degrees)
    a, b, x = degrees / 2, 0.5, degrees / (degrees + t * t)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / (2 * a)
    return 0.5 - front * _beta_fraction(b, a, 1 - x) / (2 * b)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + numerator * d) or _TINY)
            c = (1 + numerator / c) or _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value
