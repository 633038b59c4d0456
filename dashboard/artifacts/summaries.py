"""The artifacts of one call: for the Call page their state, for the Artifact page also type, lines and duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from dashboard.artifacts.content import Absence, AbsenceCause, NoContent, find_absence, open_stream
from dashboard.artifacts.window import TEXT, ViewMode, view_modes
from dashboard.models import Artifact, Call
from envelopes.storage.encoding import SNIFFED, detect_encoding

LISTED = 20
OPENED = 6  # of which the first bytes are read, for their type
DUPLICATES = 8  # that are shown
STATES = {
    Artifact.State.PRESENT: "stored",
    Artifact.State.MISSING: "not imported",
    Artifact.State.REMOVED: "removed by retention",
}


@dataclass(frozen=True, kw_only=True)
class ArtifactSummary:
    """An artifact on a page that opens none. `absence` is as far as the row and the store's folder show it."""

    artifact: Artifact
    absence: Absence | None

    @property
    def state(self) -> str:
        return _state(self.artifact, self.absence)

    @property
    def is_lost(self) -> bool:
        """True for content that an import can bring back; not for what retention removed or what was damaged."""
        causes = (AbsenceCause.NOT_IMPORTED, AbsenceCause.MISSING)
        return self.absence is not None and self.absence.cause in causes


def artifact_summaries(call: Call) -> tuple[ArtifactSummary, ...]:
    """All artifacts of a call, in their order."""
    artifacts = sorted(call.artifacts.all(), key=attrgetter("ordinal", "pk"))  # quicker than ORDER BY: they are few
    return tuple(ArtifactSummary(artifact=artifact, absence=find_absence(artifact)) for artifact in artifacts)


@dataclass(frozen=True, kw_only=True)
class ListedArtifact:
    """`type` is empty where the content was not opened; `lines` is None where they were not counted.

    `duplicates` are artifacts of other calls with the same content, DUPLICATES at most.
    """

    artifact: Artifact
    is_current: bool
    type: str
    state: str
    origin: str
    lines: int | None
    duplicates: tuple[Artifact, ...]
    has_more_duplicates: bool


def list_call_artifacts(current: Artifact, opened: ViewMode | Absence | None) -> tuple[ListedArtifact, ...]:
    """The artifacts of the call of `current`; none where it is the only one.

    `opened` is what was found of `current`: how it is viewed, or why there is no content.
    """
    artifacts = list(current.call.artifacts.order_by("ordinal")[: LISTED + 1])
    if len(artifacts) < 2:
        return ()
    listed = []
    for index, artifact in enumerate(artifacts[:LISTED]):
        is_current = artifact.pk == current.pk
        known = opened if is_current else _look_at(artifact) if index < OPENED else None
        has_lines = artifact.state != Artifact.State.MISSING and (not isinstance(known, ViewMode) or known.has_text)
        duplicates = list(Artifact.objects.duplicates(artifact)[: DUPLICATES + 1])
        listed.append(
            ListedArtifact(
                artifact=artifact,
                is_current=is_current,
                type=known.label if isinstance(known, ViewMode) else "",
                state=_state(artifact, known),
                origin=artifact_origin(artifact),
                lines=artifact.lines if has_lines else None,
                duplicates=tuple(duplicates[:DUPLICATES]),
                has_more_duplicates=len(duplicates) > DUPLICATES,
            )
        )
    return tuple(listed)


def _state(artifact: Artifact, known: ViewMode | Absence | None) -> str:
    """The state of the row; for content that should be stored and is not, the heading of its absence."""
    is_stored = artifact.observation_id is None and artifact.state == Artifact.State.PRESENT
    return known.heading if isinstance(known, Absence) and is_stored else artifact_state(artifact)


def artifact_state(artifact: Artifact) -> str:
    return "part of the recording" if artifact.observation_id is not None else STATES[Artifact.State(artifact.state)]


def artifact_origin(artifact: Artifact) -> str:
    if artifact.observation_id is not None:
        return f"the recorded result, {artifact.pointer}" if artifact.pointer else "the recorded result"
    return "a file that the recording names"


def _look_at(artifact: Artifact) -> ViewMode | Absence:
    """The default view mode by the first bytes of a file. A field of a recorded result is text and is not read."""
    if artifact.observation_id is not None:
        return TEXT
    try:
        with open_stream(artifact) as stream:
            head = stream.read(SNIFFED)
    except NoContent as error:
        return error.absence
    except OSError:  # it could be opened a moment ago
        return Absence(cause=AbsenceCause.UNREACHABLE)
    return view_modes(head, detect_encoding(head).name, artifact.path)[0]
