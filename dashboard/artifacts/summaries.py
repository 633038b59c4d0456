"""The artifacts of one call by role: size, lines, type, hash, state, where from, and who else has the content."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.artifacts.content import Absence, AbsenceCause, NoContent, find_absence, open_stream
from dashboard.artifacts.queries import SAME_SHOWN, same_content
from dashboard.artifacts.view_modes import TEXT, Form, forms_of_head
from dashboard.models import Artifact, Call
from envelopes.storage.encoding import SNIFFED, detect_encoding

LISTED = 20
OPENED = 6  # of which the first bytes are read, for their type
STATES = {
    Artifact.State.PRESENT: "stored",
    Artifact.State.MISSING: "not imported",
    Artifact.State.REMOVED: "removed by retention",
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


@dataclass(frozen=True, kw_only=True)
class Glanced:
    """An artifact on a page that opens none. `absence` is as far as a look at the store's folder tells."""

    artifact: Artifact
    absence: Absence | None

    @property
    def state(self) -> str:
        return _state(self.artifact, self.absence)

    @property
    def is_lost(self) -> bool:
        """For whoever wants it back: one that retention took out is no loss, and one that is damaged may be mended."""
        return self.absence is not None and self.absence.cause in (AbsenceCause.NOT_IMPORTED, AbsenceCause.MISSING)


def glanced(call: Call) -> tuple[Glanced, ...]:
    """All artifacts of a call, in their order."""
    return tuple(Glanced(artifact=one, absence=find_absence(one)) for one in call.artifacts.order_by("ordinal"))


def listing_of(artifact: Artifact, known: Form | Absence | None) -> tuple[Listed, ...]:
    """All of its call, in their order; none where it is the only one. `known` is what was found of the artifact."""
    found = list(artifact.call.artifacts.order_by("ordinal"))
    if len(found) < 2:
        return ()
    return tuple(
        _listed(one, artifact, known if one.pk == artifact.pk else _looked_at(one) if place < OPENED else None)
        for place, one in enumerate(found[:LISTED])
    )


def _listed(one: Artifact, current: Artifact, found: Form | Absence | None) -> Listed:
    same = same_content(one)
    has_lines = one.state != Artifact.State.MISSING and (not isinstance(found, Form) or found.has_text)
    return Listed(
        artifact=one,
        is_current=one.pk == current.pk,
        type=found.label if isinstance(found, Form) else "",
        state=_state(one, found),
        origin=origin_of(one),
        lines=one.lines if has_lines else None,
        same=same[:SAME_SHOWN],
        has_more=len(same) > SAME_SHOWN,
    )


def _state(one: Artifact, found: Form | Absence | None) -> str:
    """What the row says, but for a content that ought to be there and is not."""
    is_told = one.observation_id is not None or one.state != Artifact.State.PRESENT
    return found.heading if isinstance(found, Absence) and not is_told else state_of(one)


def state_of(artifact: Artifact) -> str:
    return "part of the recording" if artifact.observation_id is not None else STATES[Artifact.State(artifact.state)]


def origin_of(artifact: Artifact) -> str:
    if artifact.observation_id is not None:
        return f"the recorded result, {artifact.pointer}" if artifact.pointer else "the recorded result"
    return "a file that the recording names"


def _looked_at(artifact: Artifact) -> Form | Absence:
    """By the first bytes of a file; a field of a recorded result is text, and is not read for that."""
    if artifact.observation_id is not None:
        return TEXT
    try:
        with open_stream(artifact) as stream:
            head = stream.read(SNIFFED)
    except NoContent as no:
        return no.absence
    except OSError:  # it was there a moment ago
        return Absence(cause=AbsenceCause.UNREACHABLE)
    return forms_of_head(head, detect_encoding(head).name, artifact.path)[0]
