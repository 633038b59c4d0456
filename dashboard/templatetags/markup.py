"""The filters and tags of the pages.

{{ ms|duration }}  {{ n|size }}  {{ n|count }}  {{ certainty|counted }}  {{ text|visible }}  {{ value|short_id }}
{% stamp at %}  {% icon "name" %}
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dashboard.docs.markdown import Document, render_inline
from dashboard.text.escaping import printable

register = template.Library()

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
SIZES = ("B", "KB", "MB", "GB")
COUNTED_IN = (
    "counted in o200k_base when they were taken in (four characters a token where the extra 'tokens' is missing)"
)


@register.filter
def duration(ms: int | float | None) -> str:
    """Milliseconds as 340 ms, 2.4 s, 3 min 12 s, 2 h 5 min, 3 d 4 h; a dash when nobody measured."""
    if ms is None:
        return "–"
    if ms < SECOND:
        return f"{ms:.0f} ms"
    if ms < MINUTE:
        return f"{ms / SECOND:.1f} s"
    if ms < HOUR:
        return _two(int(ms), MINUTE, "min", SECOND, "s")
    return _two(int(ms), HOUR, "h", MINUTE, "min") if ms < DAY else _two(int(ms), DAY, "d", HOUR, "h")


def _two(ms: int, large: int, large_name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(ms, large)
    return f"{whole} {large_name} {rest // small} {small_name}" if rest >= small else f"{whole} {large_name}"


@register.filter
def size(n: int | None) -> str:
    """Bytes as 812 B, 14.2 KB, 3.1 MB (thousands, as disks count)."""
    if n is None:
        return "–"
    if n < 1_000:
        return f"{n} B"
    power = next((power for power in (1, 2) if n < 999.95 * 1_000**power), 3)
    return f"{n / 1_000**power:.1f} {SIZES[power]}"


@register.filter
def count(n: int | None) -> str:
    return "–" if n is None else f"{n:,}"


@register.filter
def counted(certainty: str) -> str:
    """How the tokens of what was taken in were counted, and what that is worth: for a title."""
    worth = "exact for this model" if certainty == "exact" else "an estimate for this model"
    return f"Tokens {COUNTED_IN}: {worth}"


@register.filter
def short_id(value: object) -> str:
    """The end of an id: prefixes such as toolu_01 are the same for all of a run."""
    text = str(value)
    return text if len(text) <= 10 else text[-8:]


@register.filter
def visible(text: object) -> str:
    """Foreign text for labels: control, direction and invisible characters as marks; still escaped after."""
    return printable(str(text))


@register.simple_tag
def stamp(at: datetime | None, *, seconds: bool = False) -> str:
    """A <time>: the hour for today, the day for this year, the date otherwise; all of it in the title.

    With `seconds` it has them on other days as well: for what follows one another within a minute.
    """
    if at is None:
        return "–"
    at = at.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(),
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
    return f"{at:%d %b %Y}"


@register.simple_tag
@lru_cache
def icon(name: str) -> str:
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("icons.svg"), name)


@register.filter
def document_html(document: Document) -> SafeString:
    """The rendered text of a documentation page."""
    return mark_safe(document.html)


@register.filter
def inline_markdown(text: str) -> SafeString:
    """One paragraph of our own Markdown, such as a docstring."""
    return mark_safe(render_inline(text))
