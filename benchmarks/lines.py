"""Lines over two logarithmic axes as SVG, for figures that grow: a straight line of slope one is linear growth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.bars import PLOTS

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 420, 60, 40, 250, 40
_COLOURS = ("#3a6ea5", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#555555")


@dataclass(frozen=True)
class Series:
    """One line: a label, and values above 0 at each x above 0."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


def lines(name: str, title: str, series: Sequence[Series]) -> Path:
    """Write `docs/plots/<name>.svg`; the dashed line grows linearly."""
    across = _Axis([x for one in series for x in one.x], _LEFT, _WIDTH - _RIGHT)
    up = _Axis([y for one in series for y in one.y], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        *(_grid(across.at(x), _TOP, across.at(x), _HEIGHT - _BOTTOM) for x in across.decades()),
        *(_grid(_LEFT, up.at(y), _WIDTH - _RIGHT, up.at(y)) for y in up.decades()),
        *(_text(across.at(x), _HEIGHT - _BOTTOM + 16, f"{x:g}", "middle") for x in across.decades()),
        *(_text(_LEFT - 6, up.at(y) + 4, f"{y:g}", "end") for y in up.decades()),
    ]
    decades = min(math.log10(across.last / across.first), math.log10(up.last / up.first))
    end = f"{across.at(across.first * 10**decades):.1f},{up.at(up.first * 10**decades):.1f}"
    parts.append(
        f'<polyline points="{_LEFT},{_HEIGHT - _BOTTOM} {end}" stroke="#999999" stroke-dasharray="5 4" fill="none"/>'
    )
    for number, one in enumerate(series):
        points = [(across.at(x), up.at(y)) for x, y in zip(one.x, one.y, strict=True)]
        colour = _COLOURS[number % len(_COLOURS)]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{drawn}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        place = _TOP + 14 + 20 * number
        parts.append(
            f'<rect x="{_WIDTH - _RIGHT + 16}" y="{place - 9}" width="12" height="3" fill="{colour}"/>'
        )
        parts.append(_text(_WIDTH - _RIGHT + 34, place - 3, one.label, "start"))
    PLOTS.mkdir(parents=True, exist_ok=True)
    path = PLOTS / f"{name}.svg"
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
    return path


class _Axis:
    """A logarithmic axis over whole decades, from one pixel to another."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.first = 10.0 ** math.floor(math.log10(min(values)))
        self.last = max(10.0 ** math.ceil(math.log10(max(values))), self.first * 10)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = math.log10(value / self.first) / math.log10(self.last / self.first)
        return self._begin + share * (self._end - self._begin)

    def decades(self) -> list[float]:
        count = round(math.log10(self.last / self.first))
        return [self.first * 10.0**number for number in range(count + 1)]


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}">{escape(text)}</text>'
