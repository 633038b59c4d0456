"""Two artifacts side by side: which other one, and the difference line by line.

The first COMPARED_BYTES of each are compared, and the page says where it stopped. Binary content and equal content
are compared by their hashes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F

from dashboard.artifacts.content import NoContent, open_content
from dashboard.models import Artifact, Project
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, DiffView, build_diff_page
from dashboard.text.params import Params
from envelopes.storage.encoding import decode

COMPARED_BYTES = 1024 * 1024  # of each artifact
OFFERED = 20  # candidates of a kind


@dataclass(frozen=True, kw_only=True)
class ComparedArtifact:
    """`problem` says why there is no text. `compared` bytes of `size` are compared."""

    artifact: Artifact
    text: str = ""
    size: int = 0
    compared: int = 0
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        return self.compared >= self.size


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Artifacts that an operator may want to compare with, and how they are related."""

    relation: str
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, kw_only=True)
class ArtifactDifferencePage:
    """`diff` is None where the two are compared by their hashes alone, or there is no other yet."""

    artifact: Artifact
    other: Artifact | None
    candidates: tuple[Candidates, ...]
    sides: tuple[ComparedArtifact, ComparedArtifact] | None
    diff: DiffPage | None
    is_same: bool
    view: DiffView
    spaces: bool


def artifact_difference_page(artifact: Artifact, project: Project, params: Params) -> ArtifactDifferencePage:
    other_id = params.uuid("with")
    other = project.artifacts.with_call().filter(pk=other_id).first() if other_id else None
    view: DiffView = params.choice("view", ("side", "unified"), default="side")
    spaces, first_row = "spaces" in params, params.integer("row", default=0, most=10**9)
    is_same = other is not None and artifact.sha256 != "" and artifact.sha256 == other.sha256
    sides = (_load_text(artifact), _load_text(other)) if other and not is_same else None
    diff = None
    if sides and not any(side.problem for side in sides):
        difference = compute_difference(sides[0].text, sides[1].text)
        diff = build_diff_page(difference, view, spaces=spaces, start=first_row)
    return ArtifactDifferencePage(
        artifact=artifact,
        other=other,
        candidates=tuple(candidates for candidates in _load_candidates(artifact) if candidates.artifacts),
        sides=sides,
        diff=diff,
        is_same=is_same,
        view=view,
        spaces=spaces,
    )


def _load_text(artifact: Artifact) -> ComparedArtifact:
    try:
        with open_content(artifact) as content:
            if not content.encoding.name:
                return ComparedArtifact(artifact=artifact, size=content.size, problem="It is not text.")
            content.stored.seek(0)
            data = content.stored.read(COMPARED_BYTES)
            if len(data) < content.size:
                data = data[: data.rfind(b"\n") + 1] or data
            text = decode(data, content.encoding.name)
            return ComparedArtifact(artifact=artifact, text=text, size=content.size, compared=len(data))
    except NoContent as error:
        return ComparedArtifact(artifact=artifact, problem=error.absence.sentence)


def _load_candidates(artifact: Artifact) -> tuple[Candidates, ...]:
    """Artifacts of the same call, of the same path elsewhere, and of the same role in the run."""
    call = artifact.call
    others = (
        Artifact.objects.filter(project=artifact.project_id, state=Artifact.State.PRESENT)
        .exclude(pk=artifact.pk)
        .with_call_names()
        .order_by(F("call__started_at").asc(nulls_last=True), "ordinal", "pk")
    )
    elsewhere = others.exclude(call=call)
    same_role = elsewhere.filter(call__run=call.run_id, call__tool=call.tool, role=artifact.role)
    return (
        Candidates(relation="Of the same call", artifacts=tuple(others.filter(call=call)[:OFFERED])),
        Candidates(
            relation="The same path, elsewhere", artifacts=tuple(elsewhere.filter(path=artifact.path)[:OFFERED])
        ),
        Candidates(relation=f"{artifact.role} of other calls in this run", artifacts=tuple(same_role[:OFFERED])),
    )
