"""The Artifact page: one window of a full output, and where the operator can go from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import QueryDict

from dashboard.artifact_window import ArtifactWindow, Missing, Place, content_of, read_window, seen_of
from dashboard.fidelity import of_receipt
from dashboard.models import Artifact, Call
from envelopes.preview import Cut

MOST_DIGITS = 15


@dataclass(frozen=True, kw_only=True)
class ArtifactPage:
    """`window` is None when the content is missing. Lines count from 1; 0 means there is none."""

    artifact: Artifact
    call: Call
    window: ArtifactWindow | None
    got: str
    seen: Cut | None
    seen_lines: int
    unseen_lines: int
    next_unseen: int
    before_line: int
    asked_line: int
    others: tuple[Artifact, ...]  # of the same call
    percents: tuple[int, ...] = (25, 50, 75)


def artifact_page(artifact: Artifact, query: QueryDict) -> ArtifactPage:
    seen = seen_of(artifact)
    place = _place(query)
    try:
        with content_of(artifact) as stream:
            window = read_window(stream, place, seen)
    except Missing:
        window = None
    return ArtifactPage(
        artifact=artifact,
        call=artifact.call,
        window=window,
        got=of_receipt(artifact.call.receipt_fidelity).got,
        seen=seen,
        seen_lines=seen.shown_count if seen else 0,
        unseen_lines=seen.dropped_count if seen else 0,
        next_unseen=_next_unseen(seen, window),
        before_line=max(1, window.first - len(window.rows)) if window and window.start else 0,
        asked_line=place.line or 0,
        others=tuple(artifact.call.artifacts.exclude(pk=artifact.pk).order_by("ordinal")),
    )


def _place(query: QueryDict) -> Place:
    """What is no number asks for nothing."""
    return Place(
        offset=_number(query, "offset"),
        line=_number(query, "line") or None,
        percent=_number(query, "at"),
        is_tail="tail" in query,
    )


def _number(query: QueryDict, name: str) -> int | None:
    said = query.get(name, "")
    return int(said) if re.fullmatch(f"[0-9]{{1,{MOST_DIGITS}}}", said) else None


def _next_unseen(seen: Cut | None, window: ArtifactWindow | None) -> int:
    """The first line of the next stretch below the window that the model never saw; from the top when none is left."""
    if seen is None or window is None:
        return 0
    starts = [start + 1 for start, _ in seen.gaps]
    return next((start for start in starts if start > window.last), starts[0] if starts else 0)
