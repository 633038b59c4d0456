"""The artifacts of one call by role: size, lines, type, hash, state, where from, and who else has the content."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.artifacts.content import NoContent, stream_of
from dashboard.artifacts.forms import TEXT, Form, forms_of_head
from dashboard.artifacts.queries import SAME_SHOWN, same_content
from dashboard.calls.queries import artifacts_of
from dashboard.models import Artifact
from envelopes.text_encoding import SNIFFED, detect

LISTED = 20
OPENED = 6  # of which the first bytes are read, for their type
STATES = {
    Artifact.State.PRESENT: "stored",
    Artifact.State.MISSING: "missing: not taken in",
    Artifact.State.REMOVED: "taken out by retention",
}


@dataclass(frozen=True, kw_only=True)
class Listed:
    """`type` is empty where nobody looked. `lines` are of text; None where they were not counted."""

    artifact: Artifact
    is_current: bool
    type: str
    state: str
    origin: str
    lines: int | None
    same: tuple[Artifact, ...]
    has_more: bool  # calls with the same content


def listing_of(artifact: Artifact, form: Form | None) -> tuple[Listed, ...]:
    """All of its call, in their order; none where it is the only one. `form` is the artifact's own."""
    found = artifacts_of(artifact.call)
    if len(found) < 2:
        return ()
    return tuple(
        _listed(one, artifact, form if one.pk == artifact.pk else _form(one) if place < OPENED else None)
        for place, one in enumerate(found[:LISTED])
    )


def _listed(one: Artifact, current: Artifact, form: Form | None) -> Listed:
    same = same_content(one)
    return Listed(
        artifact=one,
        is_current=one.pk == current.pk,
        type=form.label if form else "",
        state=state_of(one),
        origin=origin_of(one),
        lines=one.lines if one.state != Artifact.State.MISSING and (form is None or form.has_text) else None,
        same=same[:SAME_SHOWN],
        has_more=len(same) > SAME_SHOWN,
    )


def state_of(artifact: Artifact) -> str:
    return "part of the recording" if artifact.observation_id is not None else STATES[Artifact.State(artifact.state)]


def origin_of(artifact: Artifact) -> str:
    if artifact.observation_id is not None:
        return f"the recorded result, {artifact.pointer}" if artifact.pointer else "the recorded result"
    return "a file that the recording names"


def _form(artifact: Artifact) -> Form | None:
    """By the first bytes of a file; a field of a recorded result is text, and is not read for that."""
    if artifact.observation_id is not None:
        return TEXT
    try:
        with stream_of(artifact) as stream:
            head = stream.read(SNIFFED)
    except (NoContent, OSError):
        return None
    return forms_of_head(head, detect(head).name, artifact.path)[0]
