"""Follows a file that still grows: what was added since a cursor, until the run is over.

A cursor is a byte and a hash of what stood before it (its first and last 4 KiB). Where the hash differs, the file
was replaced, and following stops, because what would be appended to the page belongs to another text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urlencode

from django.urls import reverse

from dashboard.artifacts.content import AbsenceCause, Content, NoContent, open_content
from dashboard.artifacts.location import LARGEST
from dashboard.artifacts.window import ArtifactRow, ArtifactWindow, WindowMarks, load_window
from dashboard.models import Artifact
from dashboard.text.formatting import format_size
from dashboard.text.params import Params
from envelopes.storage.line_window import WindowStart

EDGE = 4 * 1024  # bytes
TAIL_MODES = ("text", "ansi", "diff")
OVER = "The run is over: nothing is added to this output any more."


@dataclass(frozen=True, kw_only=True)
class TailUpdate:
    """Rows that were added. `href` requests the next ones and is empty when following is over.

    `message` says why it is over, or why nothing comes at the moment. `is_broken`: the page shows what the file no
    longer holds. `size` is in bytes.
    """

    rows: tuple[ArtifactRow, ...] = ()
    href: str = ""
    message: str = ""
    size: int = 0
    is_broken: bool = False


def can_follow(artifact: Artifact) -> bool:
    return artifact.observation_id is None and artifact.call.run.is_live


def start_tail(artifact: Artifact, content: Content, window: ArtifactWindow) -> TailUpdate | None:
    """Follows from the end of the window on; None for a window that is not at the end of the file."""
    if window.end < window.size or window.mode not in TAIL_MODES:
        return None
    if not can_follow(artifact):
        return TailUpdate(message=OVER)
    return TailUpdate(href=_next_address(artifact, content.stream, window), size=content.size)


def tail_since(artifact: Artifact, params: Params) -> TailUpdate | None:
    """Loads what was added since the cursor `?from= &mark= &was=`; None while there is nothing new."""
    start, mark = params.integer("from", default=0, most=LARGEST), params.text("mark")
    mode, encoding = params.choice("as", TAIL_MODES, default="text"), params.text("encoding")
    is_same_content = artifact.sha256.startswith(params.text("was") or "-")
    if is_same_content and artifact.size == start:
        return None if can_follow(artifact) else TailUpdate(message=OVER)
    try:
        with open_content(artifact, encoding) as content:
            if content.size < start:
                sizes = f"{format_size(start)} before, {format_size(content.size)} now"
                message = f"The file became shorter while you were reading it: {sizes}."
                return TailUpdate(message=message, is_broken=True)
            if _hash_before(content.stream, start) != mark:
                message = "The file was replaced by another one while you were reading it."
                return TailUpdate(message=message, is_broken=True)
            window = load_window(content, mode, WindowStart(offset=start), WindowMarks())
            href = _next_address(artifact, content.stream, window)
            return TailUpdate(rows=window.rows, href=href, size=content.size)
    except NoContent as error:
        if error.absence.cause == AbsenceCause.UNREACHABLE:
            same_address = f"{reverse('artifact-follow', args=[artifact.pk])}{params.url()}"
            return TailUpdate(href=same_address, message=error.absence.sentence)
        return TailUpdate(message="The content was removed while you were reading it.", is_broken=True)


def _next_address(artifact: Artifact, stream: BinaryIO, window: ArtifactWindow) -> str:
    query = {
        "from": window.end,
        "mark": _hash_before(stream, window.end),
        "was": artifact.sha256[:16] if window.end == window.size else "",
        "as": window.mode,
    }
    return f"{reverse('artifact-follow', args=[artifact.pk])}?{urlencode(query)}"


def _hash_before(stream: BinaryIO, end: int) -> str:
    digest = hashlib.sha256()
    for start in (0, max(0, end - EDGE)):
        stream.seek(start)
        digest.update(stream.read(min(EDGE, end - start)))
    return digest.hexdigest()[:32]
