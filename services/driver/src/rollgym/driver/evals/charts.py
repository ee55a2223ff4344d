"""The report's plots: static SVG by pygal, in the page's own colors, without a script.

Colors are CSS variables of the page (`report.css`), so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pygal  # type: ignore[import-untyped]  # it has no type hints
from pygal.style import Style  # type: ignore[import-untyped]

from rollgym.driver.progress import seconds

Points = Sequence[tuple[float, float | None]]

_WIDTH, _HEIGHT = 760, 300
_SCRIPTS_AND_COMMENTS = re.compile(r"<script\b.*?</script>|<script\b[^>]*/>|<!--.*?-->", re.DOTALL)
_SERIES_IDS = re.compile(r' id="activate-serie-\d+"')  # for pygal's script; twice on a page they would be no ids
_LABELLED = 6
_LEGEND_COLUMNS = 4
_MARGIN = 10

_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--ink)",
    foreground_strong="var(--ink)",
    foreground_subtle="var(--rule)",
    guide_stroke_color="var(--rule)",
    major_guide_stroke_color="var(--rule)",
    guide_stroke_dasharray="2,3",
    major_guide_stroke_dasharray="2,3",
    value_background="var(--rule)",
    font_family="inherit",
    label_font_size=13,
    major_label_font_size=13,
    legend_font_size=13,
    value_font_size=12,
    tooltip_font_size=12,
    opacity="0.85",
    stroke_opacity="1",
    stroke_width="2",
    transition="0s",
    colors=tuple(f"var(--series-{number})" for number in range(8)),
)


@dataclass(frozen=True)
class Chart:
    """One plot: its SVG, and a caption that says what it is over."""

    name: str
    title: str
    caption: str
    svg: str


def plain(value: float) -> str:
    """A number for an axis: no more digits than it needs."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def percent(value: float) -> str:
    return f"{100 * value:.4g} %"


def lines(
    name: str,
    title: str,
    caption: str,
    series: Sequence[tuple[str, Points]],
    *,
    y_title: str,
    formatted: Callable[[float], str] = plain,
    x_title: str = "",
    x_formatted: Callable[[float], str] = seconds,
    x_range: tuple[float, float] | None = None,
    x_labels: Sequence[float] | None = None,
) -> Chart:
    """Lines over a numeric axis, time by default. A point without a value is a gap."""
    chart = pygal.XY(
        **_options(name, len(series)),
        y_title=y_title,
        x_title=x_title,
        dots_size=2,
        allow_interruptions=True,
        value_formatter=formatted,
        x_value_formatter=x_formatted,
        xrange=x_range,
        include_x_axis=True,
        show_legend=len(series) > 1,
    )
    if x_labels is not None:
        chart.x_labels = list(x_labels)
    for label, points in series:
        chart.add(label, list(points))
    return _drawn(chart, name, title, caption)


def bars(
    name: str,
    title: str,
    caption: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    *,
    y_title: str,
    formatted: Callable[[float], str] = plain,
    stacked: bool = False,
    sideways: bool = False,
) -> Chart:
    """Bars per label; of many labels about six are shown."""
    kind: Any = pygal.HorizontalBar if sideways else (pygal.StackedBar if stacked else pygal.Bar)
    every = 1 if sideways else -(-len(labels) // _LABELLED) if len(labels) > 2 * _LABELLED else 1
    options = _options(name, len(series))
    if sideways:
        options["height"] = 90 + 26 * len(labels)
    chart = kind(
        **options,
        y_title=None if sideways else y_title,
        x_title=y_title if sideways else None,
        value_formatter=formatted,
        include_x_axis=True,
        show_legend=len(series) > 1,
        x_labels_major_every=every,
        show_minor_x_labels=every == 1,
        truncate_label=60,
        spacing=8,
    )
    chart.x_labels = list(labels)
    for label, values in series:
        chart.add(label, list(values))
    return _drawn(chart, name, title, caption)


def _options(name: str, series: int) -> dict[str, Any]:
    # pygal makes room for full legend rows only; the margin makes it for the last one.
    missing_rows = -(-series // _LEGEND_COLUMNS) - series // _LEGEND_COLUMNS if series > 1 else 0
    return {
        "style": _STYLE,
        "width": _WIDTH,
        "height": _HEIGHT,
        "margin": _MARGIN,
        "margin_bottom": _MARGIN + 20 * missing_rows,
        "js": [],
        "classes": ["chart", name],
        "legend_at_bottom": True,
        "legend_at_bottom_columns": _LEGEND_COLUMNS,
        "legend_box_size": 11,
        "disable_xml_declaration": True,
        "max_scale": 6,
        "min_scale": 3,
        "tooltip_fancy_mode": False,
    }


def _drawn(chart: Any, name: str, title: str, caption: str) -> Chart:
    chart.uuid = name  # instead of a random one: the same run gives the same file
    svg: str = chart.render()
    svg = _SERIES_IDS.sub("", _SCRIPTS_AND_COMMENTS.sub("", svg)).replace("<title>Pygal</title>", "")
    return Chart(name, title, caption, svg)
