"""A picture of a simulation as SVG: loop lag and collection pauses over time, a panel a variant, on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from rollgym.driver.simulate.figures import RunFigures
from rollgym.driver.simulate.measured import Measured

WIDTH, PANEL, GAP = 960.0, 150.0, 46.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 104.0, 44.0
TITLE = "Lag of the driver's event loop, and its collection pauses"
FLOOR_MS = 1.0
"""The scale is logarithmic and begins here; what is below lies on the axis."""
_INK, _QUIET, _GRID, _LAG = "#1b1f24", "#5b6470", "#e3e7ec", "#2f6fb3"
_GENERATIONS = ("#e3b23c", "#e07b39", "#b3262e")


def picture(subtitle: str, runs: Sequence[Measured]) -> str:
    """The SVG document. `runs` are drawn from top to bottom."""
    span_s = max((_end_s(run) for run in runs), default=0.0) or 1.0
    most_ms = max((_most_ms(run) for run in runs), default=0.0)
    scale = _Scale(span_s, 10 ** math.ceil(math.log10(max(most_ms, 10 * FLOOR_MS))))
    height = TOP + len(runs) * (PANEL + GAP) - GAP + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" '
        f'height="{height:g}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="{_INK}">',
        f"<title>{escape(TITLE)}</title>",
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        _text(LEFT, 28, TITLE, size=16, weight=600),
        _text(LEFT, 47, subtitle, fill=_QUIET, size=11),
        *_legend(),
    ]
    for number, run in enumerate(runs):
        parts += _panel(run, scale, TOP + number * (PANEL + GAP))
    parts += _time_axis(scale, height - BOTTOM)
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """From seconds and milliseconds to places in a panel."""

    def __init__(self, span_s: float, most_ms: float) -> None:
        self.span_s, self.most_ms = span_s, most_ms

    def x(self, at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, at_s / self.span_s))

    def y(self, value_ms: float, top: float) -> float:
        share = math.log10(max(value_ms, FLOOR_MS) / FLOOR_MS) / math.log10(self.most_ms / FLOOR_MS)
        return top + PANEL * (1.0 - min(1.0, share))

    def decades(self) -> Iterator[float]:
        value = FLOOR_MS
        while value <= self.most_ms:
            yield value
            value *= 10


def _collected(figures: RunFigures) -> str:
    if figures.pause_max_ms is None:
        return "no collection"
    longest = f"longest {figures.pause_max_ms:,.1f} ms"
    return f"{figures.collections:,} collections, {figures.pause_sum_ms:,.0f} ms paused, {longest}"


def _panel(run: Measured, scale: _Scale, top: float) -> Iterator[str]:
    figures = run.figures
    caption = f"lag at most {figures.lag_max_ms:,.0f} ms, {_collected(figures)}"
    yield f'<text x="{LEFT:g}" y="{top - 10:.1f}"><tspan font-weight="600">{escape(figures.name)}</tspan>'
    yield f'<tspan dx="10" fill="{_QUIET}">{escape(caption)}</tspan></text>'
    for value in scale.decades():
        y = scale.y(value, top)
        yield f'<line x1="{LEFT:g}" y1="{y:.1f}" x2="{WIDTH - RIGHT:g}" y2="{y:.1f}" stroke="{_GRID}"/>'
        yield _text(LEFT - 8, y + 4, f"{value:,.0f} ms", anchor="end", fill=_QUIET, size=11)
    yield _lag_area(run.lag, scale, top)
    for at_s, generation, pause_ms in sorted(run.pauses, key=lambda pause: pause[2]):
        x, y = scale.x(at_s), scale.y(pause_ms, top)
        colour = _GENERATIONS[min(generation, 2)]
        yield (
            f'<path d="M{x:.1f} {top + PANEL:.1f}V{y:.1f}" stroke="{colour}" stroke-width="1.4"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"/>'
        )


def _lag_area(lag: Sequence[tuple[float, float]], scale: _Scale, top: float) -> str:
    if not lag:
        return ""
    points = " ".join(f"{scale.x(at_s):.1f},{scale.y(value, top):.1f}" for at_s, value in lag)
    first, last, base = scale.x(lag[0][0]), scale.x(lag[-1][0]), top + PANEL
    return (
        f'<polygon points="{first:.1f},{base:.1f} {points} {last:.1f},{base:.1f}" fill="{_LAG}" fill-opacity="0.14"/>'
        f'<polyline points="{points}" fill="none" stroke="{_LAG}" stroke-width="1.4" stroke-linejoin="round"/>'
    )


def _time_axis(scale: _Scale, y: float) -> Iterator[str]:
    step_s = _nice_step(scale.span_s)
    for number in range(int(scale.span_s / step_s + 1e-9) + 1):
        at_s = number * step_s
        yield _text(scale.x(at_s), y + 18, f"{at_s:g}", anchor="middle", fill=_QUIET, size=11)
    yield _text(WIDTH - RIGHT, y + 34, "seconds since the first dispatch", anchor="end", fill=_QUIET, size=11)


def _legend() -> Iterator[str]:
    entries = [("loop lag, longest of each 0.1 s", _LAG)]
    entries += [(f"pause, generation {number}", colour) for number, colour in enumerate(_GENERATIONS)]
    x = LEFT
    for label, colour in entries:
        yield f'<rect x="{x:g}" y="58" width="10" height="10" rx="2" fill="{colour}"/>'
        yield _text(x + 15, 67, label, fill=_QUIET)
        x += 40 + 6.2 * len(label)


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = _INK, size: int = 12, weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _nice_step(span_s: float) -> float:
    """1, 2 or 5 times a power of ten, for about eight steps."""
    rough = span_s / 8
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)


def _end_s(run: Measured) -> float:
    return max([at_s for at_s, _ in run.lag] + [at_s for at_s, _, _ in run.pauses], default=0.0)


def _most_ms(run: Measured) -> float:
    return max([value for _, value in run.lag] + [pause for _, _, pause in run.pauses], default=0.0)
