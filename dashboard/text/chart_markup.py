"""Charts as SVG: bars side by side, stacked bars, a line, a line of steps. `templates/charts/_chart.html` shows one.

    Chart(id="calls", title="Calls", head="Day", labels=days, kind="stacked", series=[
        ChartSeries(name="failed", ink="failed", values=[3, 0, 1], urls=["/calls/?q=…", "", "/calls/?q=…"]),
    ])

The drawing is stretched to the width of its box, so all text stands beside it in HTML. It has a name and a description
for screen readers, and each chart has a table with the same numbers, whose cells are links. Colours are classes of the
stylesheet, by `ink`. A value of None is missing, not nought: a line has a gap there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import floor, log10
from typing import Literal, NamedTuple, TypeAlias

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.text.formatting import format_count
from dashboard.text.text_markup import printable

STEP, HEIGHT = 10, 100  # of one label, and of the plot, in the units of the drawing
BAR_SHARE = 0.8  # of a label's width
MOST_LABELED = 4  # labels that all stand below the plot; of more only the first, the middle and the last
ChartKind: TypeAlias = Literal["bars", "stacked", "line", "steps"]


def format_compact(number: float) -> str:
    """At most four characters before the unit: 0, 950, 1.2k, 34k, 5.6M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def format_value(value: float | None) -> str:
    """Counts with thousands separated; a dash where there is no value."""
    return format_count(None if value is None else round(value))


def format_share(value: float | None) -> str:
    """A share of 1 in percent, with a digit behind the point below ten."""
    if value is None:
        return "–"
    return f"{value:.1%}" if 0 < value < 0.1 else f"{value:.0%}"


@dataclass(frozen=True, kw_only=True)
class ChartSeries:
    """`ink` names a colour of the stylesheet. `texts` are the values in words where their numbers say too little.

    `texts` and `urls` are as long as `values`, or empty.
    """

    name: str
    ink: str
    values: Sequence[float | None]
    texts: Sequence[str] = ()
    urls: Sequence[str] = ()


class ChartCell(NamedTuple):
    text: str
    url: str


class ChartRow(NamedTuple):
    """One label: its line in the table, and its places in the plot, each with words and an address or none."""

    label: str
    cells: tuple[ChartCell, ...]
    hits: tuple[ChartCell, ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """`urls` are where a click on the plot leads, by label; without them to the first series that has an address.
    Each of several bars leads to its own.

    `format` writes the values of the table, `scale` those beside the plot; `most` is the top of the scale where it is
    known, as for shares.
    """

    id: str
    title: str
    head: str
    labels: Sequence[str]
    series: Sequence[ChartSeries]
    kind: ChartKind
    urls: Sequence[str] = ()
    format: Callable[[float | None], str] = format_value
    scale: Callable[[float], str] = format_compact
    most: float | None = None
    note: str = ""

    @cached_property
    def top(self) -> float:
        """The value at the upper edge: a round number, of which the half is short too."""
        if self.most is not None:
            return self.most
        largest = max(self._heights(), default=0)
        power = 10.0 ** floor(log10(largest)) if largest > 0 else 1.0
        return next((n * power for n in (1, 1.5, 2, 3, 4, 5, 6, 8) if n * power >= largest), 10 * power)

    @property
    def marks(self) -> list[str]:
        """The numbers beside the plot, from its upper edge to its base."""
        return [self.scale(self.top), self.scale(self.top / 2), self.scale(0)]

    @property
    def edges(self) -> Sequence[str]:
        """Labels below the plot; the middle one only where a label is exactly in the middle."""
        if len(self.labels) <= MOST_LABELED:
            return self.labels
        middle = [self.labels[len(self.labels) // 2]] if len(self.labels) % 2 else []
        return [self.labels[0], *middle, self.labels[-1]]

    @property
    def has_all_labels(self) -> bool:
        return len(self.labels) <= MOST_LABELED

    @property
    def rows(self) -> list[ChartRow]:
        rows = []
        for index, label in enumerate(self.labels):
            cells = tuple(
                ChartCell(self._write(series, index), series.urls[index] if series.urls else "")
                for series in self.series
            )
            words = [f"{series.name} {cell.text}" for series, cell in zip(self.series, cells, strict=True)]
            if self.kind == "bars":  # a place for each bar
                hits = tuple(ChartCell(f"{label}: {word}", cell.url) for word, cell in zip(words, cells, strict=True))
            else:
                url = self.urls[index] if self.urls else next((cell.url for cell in cells if cell.url), "")
                hits = (ChartCell(f"{label}: {', '.join(words)}", url),)
            rows.append(ChartRow(label, cells, hits))
        return rows

    @property
    def description(self) -> str:
        """A sentence with the extent and, of each series, its largest value and where that is."""
        if not self.labels:
            return "No values."
        extent = f"{self.labels[0]} to {self.labels[-1]}" if len(self.labels) > 1 else self.labels[0]
        parts = [f"{self.head} {extent}"]
        for series in self.series:
            known = [(value, index) for index, value in enumerate(series.values) if value is not None]
            if known:
                value, index = max(known, key=lambda pair: (pair[0], -pair[1]))
                parts.append(f"most {series.name} {self._write(series, index)} at {self.labels[index]}")
        return "; ".join(parts) + ". The table has all numbers."

    @property
    def svg(self) -> SafeString:
        paths = format_html_join("", '<path class="{}" data-ink="{}" d="{}"/>', self._paths())
        return format_html(
            '<svg class="chart-drawing" role="img" aria-labelledby="chart-{0}-name chart-{0}-words"'
            ' viewBox="0 0 {1} {2}" preserveAspectRatio="none"><title id="chart-{0}-name">{3}</title>'
            '<desc id="chart-{0}-words">{4}</desc><path class="grid" d="M0 0h{1}M0 {5}h{1}M0 {2}h{1}"/>{6}</svg>',
            self.id,
            max(1, len(self.labels)) * STEP,
            HEIGHT,
            printable(self.title),
            printable(self.description),
            HEIGHT // 2,
            paths,
        )

    def _write(self, series: ChartSeries, index: int) -> str:
        return series.texts[index] if series.texts else self.format(series.values[index])

    def _heights(self) -> Iterator[float]:
        if self.kind == "stacked":
            columns = zip(*(series.values for series in self.series), strict=True)
            yield from (sum(value or 0 for value in column) for column in columns)
        else:
            yield from (value for series in self.series for value in series.values if value is not None)

    def _paths(self) -> Iterator[tuple[str, str, str]]:
        """Class, ink and data of one path for each series."""
        base = [0.0] * len(self.labels)
        width = STEP * BAR_SHARE / (len(self.series) if self.kind == "bars" else 1)
        for number, series in enumerate(self.series):
            if self.kind in ("line", "steps"):
                yield "line", series.ink, self._draw_line(series.values)
                continue
            left = STEP * (1 - BAR_SHARE) / 2 + (number * width if self.kind == "bars" else 0)
            bars = []
            for index, value in enumerate(series.values):
                if value:
                    bottom = self._y(base[index])
                    height = bottom - self._y(base[index] + value)
                    x = index * STEP + left
                    bars.append(f"M{x:.4g} {bottom:.5g}h{width:.3g}v-{height:.5g}h-{width:.3g}z")
                    base[index] += value if self.kind == "stacked" else 0
            yield "bar", series.ink, "".join(bars)

    def _draw_line(self, values: Sequence[float | None]) -> str:
        """Stretches without a gap; one label alone is a dash."""
        data: list[str] = []
        for is_missing, stretch in groupby(enumerate(values), key=lambda pair: pair[1] is None):
            points = [(index, self._y(value)) for index, value in stretch if value is not None]
            if is_missing:
                continue
            if self.kind == "steps" or len(points) == 1:
                first = points[0]
                data.append(f"M{first[0] * STEP} {first[1]:.5g}h{STEP}")
                data += [f"V{y:.5g}h{STEP}" for _, y in points[1:]]
            else:
                places = [f"{index * STEP + STEP // 2} {y:.5g}" for index, y in points]
                data.append("M" + "L".join(places))
        return "".join(data)

    def _y(self, value: float) -> float:
        return HEIGHT * (1 - min(value, self.top) / self.top)
