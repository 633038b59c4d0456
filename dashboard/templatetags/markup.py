"""The filters and tags of the pages.

{{ ms|duration }}  {{ n|size }}  {{ n|count }}  {{ certainty|counted }}  {{ tokens|token_title }}  {{ line|place:run }}
{{ run.source_format|recording_agent }}
{{ text|visible }}  {{ text|truncatechars:60 }}  {{ value|short_id }}  {{ request.path|section }}
{% for row in rows|escaped %}
{% stamp at %}  {% icon "name" %}  {% outcome_strip run.strip %}
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from dashboard.models import Run
from dashboard.text.find_secrets import CONTEXT
from dashboard.text.formatting import (
    TOKENS_COUNTED_BY,
    find_agent,
    format_change,
    format_count,
    format_duration,
    format_place,
    format_size,
)
from dashboard.text.markdown import Document, render_inline
from dashboard.text.masks import mask_text
from dashboard.text.text_markup import printable
from envelopes.text.tokens import TokenCount

register = template.Library()

# By the first word of an address. The search has its box in the bar.
SECTIONS = {
    **dict.fromkeys(("runs", "insights", "artifacts"), "runs"),
    **dict.fromkeys(("calls", "notes", "review"), "calls"),
    "experiments": "experiments",
    **dict.fromkeys(("setup", "tools", "docs", "problems", "masking", "audit", "tokens"), "setup"),
}

register.filter("change", format_change)
register.filter("count", format_count)
register.filter("duration", format_duration)
register.filter("recording_agent", find_agent)
register.filter("size", format_size)


@register.filter
def place(line: int, run: Run) -> str:
    """The place of a record in its run, in words: no format but those of lines has the line of a file there."""
    return format_place(line, run.source_format)


@register.filter
def counted(certainty: str) -> str:
    """For a title: how tokens were counted at import, and how exact that is."""
    exactness = "exact for this model" if certainty == "exact" else "an estimate for this model"
    return f"Tokens {TOKENS_COUNTED_BY}: {exactness}"


@register.filter
def token_title(tokens: TokenCount) -> str:
    """For a title: the encoding that a text's tokens were counted with, which a count of the import does not name."""
    return f"Counted {f'with {tokens.encoding}' if tokens.encoding else 'at import'}: {tokens.certainty}"


@register.filter
def short_id(value: object) -> str:
    """The last characters of an id: prefixes such as toolu_01 are the same in a whole run."""
    text = str(value)
    return text if len(text) <= 10 else text[-8:]


@register.filter
def visible(text: object) -> str:
    """Foreign text for labels, with names for control, direction and invisible characters. It is escaped afterwards."""
    return printable(str(text))


@register.filter
def escaped(rows: Iterable[Mapping[str, object]]) -> Iterator[dict[str, object]]:
    """Rows of a list with their texts escaped. Django would escape each text again wherever a row shows it.

    Most rows have nothing to escape, which one look at all of their texts together tells.
    """
    for row in rows:
        text = "".join([value for value in row.values() if type(value) is str])
        escape = SafeString if html.escape(text) == text else conditional_escape
        yield {name: escape(value) if type(value) is str else value for name, value in row.items()}


@register.filter
def truncatechars(text: object, limit: int) -> str:
    """Django's, of masked text: no rule would find the part of a secret that is left of it."""
    return Truncator(mask_text(str(text)[: limit + CONTEXT])).chars(limit)


@register.filter
def section(path: str) -> str:
    """The part of the site that an address belongs to, which the navigation marks."""
    return SECTIONS.get(path.split("/")[1], "")


@register.simple_tag
def stamp(at: datetime | None, *, seconds: bool = False) -> str:
    """A <time>: the hour if it is of today, the day if it is of this year, else the date; the title has all of it.

    With `seconds` the hour is shown on other days too, for stamps that follow each other within a minute. The script
    `times.js` adds the local time, and writes the text in the same form.
    """
    if at is None:
        return "–"
    at = at.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" data-stamp="{}" title="{}">{}</time>',
        at.isoformat(),
        "seconds" if seconds else "",
        f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC",
        _short(at, seconds=seconds),
    )


def _short(at: datetime, *, seconds: bool) -> str:
    now = timezone.now()
    if at.date() == now.date():
        return f"{at:%H:%M:%S} UTC"
    if seconds or at.year == now.year:
        day = f"{at:%d %b}" if at.year == now.year else f"{at:%d %b %Y}"
        return f"{day} {at:%H:%M:%S} UTC" if seconds else f"{day} {at:%H:%M} UTC"
    return f"{at:%d %b %Y} UTC"


@register.simple_tag
@lru_cache
def icon(name: str) -> str:
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("icons.svg"), name)


class Strip(Protocol):
    """One bar a call, as `runs.overview` builds it: its text alternative, and one path an outcome."""

    @property
    def label(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def paths(self) -> tuple[tuple[str, str], ...]: ...


@register.simple_tag
@lru_cache(4096)  # a list has 50, and most runs of a store look alike
def outcome_strip(strip: Strip) -> SafeString:
    """An SVG. Written here because the variables of a template for it were a third of a list's time."""
    paths = format_html_join("", '<path data-outcome="{}" d="{}"/>', strip.paths)
    return format_html(
        '<svg class="marks" role="img" aria-label="{0}" viewBox="0 0 {1} {2}" width="{1}" preserveAspectRatio="none">'
        "<title>{0}</title>{3}</svg>",
        strip.label,
        strip.width,
        strip.height,
        paths,
    )


@register.filter
def document_html(document: Document) -> SafeString:
    """The rendered text of a documentation page."""
    return mark_safe(document.html)


@register.filter
def inline_markdown(text: str) -> SafeString:
    """One paragraph of our own Markdown, such as a docstring."""
    return mark_safe(render_inline(text))
