"""Speed-ups as bars, in an SVG that needs no other program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.gpu.faster import Row
from benchmarks.gpu.journal import Head

_LEFT, _WIDE, _HIGH, _TOP = 260, 420, 16, 48
_COLOURS = {"auto": "#1f6fb2", "force": "#b0b0b0"}


def svg(rows: Sequence[Row], head: Head) -> str:
    """The slowest first, a line where nothing changes."""
    shown = [row for row in rows if row.speedup is not None]
    most = max([row.speedup or 1.0 for row in shown] + [1.5])
    height = _TOP + _HIGH * len(shown) + 10
    width = _LEFT + _WIDE + 60
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="18" font-size="13">{escape(_title(head))}</text>',
        *_legend(),
        *(line for at, row in enumerate(shown) for line in _bar(row, _TOP + at * _HIGH, most)),
    ]
    one = _LEFT + _WIDE / most
    lines.append(f'<path d="M{one:.1f} {_TOP - 4}V{height - 6}" stroke="black"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _title(head: Head) -> str:
    what = "INVENTED speed-ups" if head.invented else "Speed-ups over the original"
    return f"{what}: {head.device}, driver {head.driver}, {head.date}"


def _legend() -> Iterator[str]:
    for at, (version, colour) in enumerate(_COLOURS.items()):
        x = 8 + 70 * at
        yield f'<rect x="{x}" y="27" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="36">{version}</text>'


def _bar(row: Row, y: int, most: float) -> Iterator[str]:
    assert row.speedup is not None
    width = _WIDE * row.speedup / most
    colour = _COLOURS[row.version]
    name = escape(f"{row.kernel} {row.version}")
    yield f'<text x="{_LEFT - 6}" y="{y + 11}" text-anchor="end">{name}</text>'
    size = f'width="{width:.1f}" height="{_HIGH - 5}"'
    yield f'<rect x="{_LEFT}" y="{y + 2}" {size} fill="{colour}"/>'
    yield f'<text x="{_LEFT + width + 4:.1f}" y="{y + 11}">{row.speedup:.2f}</text>'
