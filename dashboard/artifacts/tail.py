"""The end of a file that still grows: what was added since a cursor, until the run is over.

A cursor is a place and a hash of what stood before it, its first and last 4 KiB. Where that is other
content now, the file was replaced: what would be added to the page would belong to another text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from dashboard.artifacts.content import AbsenceCause, Content, NoContent, open_content
from dashboard.artifacts.search import number
from dashboard.artifacts.window import ArtifactWindow, Marks, Row, window_of
from dashboard.models import Artifact
from dashboard.text.formatting import format_size
from envelopes.storage.line_window import WindowStart

EDGE = 4 * 1024  # bytes
FORMS = ("text", "ansi", "diff")


@dataclass(frozen=True, kw_only=True)
class Followed:
    """`href` asks for what comes next; empty when following is over. `sentence` says why, or why nothing comes now."""

    rows: tuple[Row, ...] = ()
    href: str = ""
    sentence: str = ""
    size: int = 0  # bytes of the file, as far as it was looked at
    is_broken: bool = False  # what the page shows is no longer what the file holds


def can_follow(artifact: Artifact) -> bool:
    return artifact.observation_id is None and artifact.call.run.is_live


def begun(artifact: Artifact, content: Content, window: ArtifactWindow) -> Followed | None:
    """From the window's end on; None for a window that is not at the end of the file."""
    if window.end < window.size or window.form not in FORMS:
        return None
    following = Followed(href=_href(artifact, content.stream, window), size=content.size)
    return following if can_follow(artifact) else Followed(sentence=OVER)


OVER = "The run is over: nothing is added to this output any more."


def followed(artifact: Artifact, query: QueryDict) -> Followed | None:
    """None while nothing is new."""
    here = number(query, "from")
    is_the_same = artifact.sha256.startswith(query.get("was", "") or "-")
    if is_the_same and artifact.size == here:
        return None if can_follow(artifact) else Followed(sentence=OVER)
    try:
        with open_content(artifact, query.get("encoding", "")) as content:
            return _since(artifact, content, here, query)
    except NoContent as no:
        if no.absence.cause == AbsenceCause.UNREACHABLE:
            return Followed(href=f"{_address(artifact)}?{query.urlencode()}", sentence=no.absence.sentence)
        return Followed(sentence="The content was taken away while you were reading it.", is_broken=True)


def _since(artifact: Artifact, content: Content, here: int, query: QueryDict) -> Followed:
    if content.size < here:
        sizes = f"{format_size(here)} before, {format_size(content.size)} now"
        return Followed(sentence=f"The file became shorter while you were reading it: {sizes}.", is_broken=True)
    if _mark(content.stream, here) != query.get("mark", ""):
        return Followed(sentence="The file was replaced by another one while you were reading it.", is_broken=True)
    form = query.get("as", "")
    window = window_of(content, form if form in FORMS else "text", WindowStart(offset=here), Marks())
    return Followed(rows=window.rows, href=_href(artifact, content.stream, window), size=content.size)


def _href(artifact: Artifact, stream: BinaryIO, window: ArtifactWindow) -> str:
    said = {
        "from": window.end,
        "mark": _mark(stream, window.end),
        "was": artifact.sha256[:16] if window.end == window.size else "",
        "as": window.form,
    }
    return f"{_address(artifact)}?{urlencode(said)}"


def _address(artifact: Artifact) -> str:
    return reverse("artifact-follow", args=[artifact.pk])


def _mark(stream: BinaryIO, end: int) -> str:
    digest = hashlib.sha256()
    for start in (0, max(0, end - EDGE)):
        stream.seek(start)
        digest.update(stream.read(min(EDGE, end - start)))
    return digest.hexdigest()[:32]
