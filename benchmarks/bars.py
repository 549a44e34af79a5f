"""A bar chart as SVG, for figures that are ratios: no drawing library is worth its weight for rectangles."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.report import ROOT

PLOTS = ROOT / "docs" / "plots"
_WIDTH, _ROW, _LEFT, _RIGHT = 760, 30, 330, 90


def bars(name: str, title: str, rows: Sequence[tuple[str, float, str]]) -> Path:
    """Write `docs/plots/<name>.svg` with a bar for each (label, value, text); the longest fills the width."""
    longest = max(value for _, value, _ in rows)
    height = 44 + _ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for place, (label, value, text) in enumerate(rows):
        top = 40 + place * _ROW
        length = (_WIDTH - _LEFT - _RIGHT) * value / longest
        parts += [
            f'<text x="{_LEFT - 8}" y="{top + 15}" font-size="12" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LEFT}" y="{top + 2}" width="{length:.1f}" height="18" fill="#3a6ea5"/>',
            f'<text x="{_LEFT + length + 6:.1f}" y="{top + 15}" font-size="12">{escape(text)}</text>',
        ]
    PLOTS.mkdir(parents=True, exist_ok=True)
    path = PLOTS / f"{name}.svg"
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
    return path
