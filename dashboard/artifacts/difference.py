"""Two artifacts side by side: which other one, and how it differs, line by line.

Of each the first COMPARED bytes are read, and the page says where it stopped. What is no text, or the same
content, is told by its hash alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from dashboard.artifacts.content import Content, NoContent, open_content
from dashboard.models import Artifact, Project
from dashboard.text.diff import difference
from dashboard.text.diff_markup import DiffPage, View, diff_page
from envelopes.storage.encoding import decode

COMPARED = 1024 * 1024  # bytes of each
OFFERED = 20  # of a kind


@dataclass(frozen=True, kw_only=True)
class Side:
    """`problem` says why there is no text. `compared` bytes of `size` are looked at."""

    artifact: Artifact
    text: str = ""
    size: int = 0
    compared: int = 0
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        return self.compared >= self.size


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Others that somebody may want to lay beside it, and why."""

    reason: str
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, kw_only=True)
class DifferencePage:
    """`page` is None where the two are told apart by their hashes alone, or there is no other yet."""

    artifact: Artifact
    other: Artifact | None
    offers: tuple[Offer, ...]
    sides: tuple[Side, Side] | None
    page: DiffPage | None
    is_same: bool
    view: View
    spaces: bool


def difference_page(artifact: Artifact, project: Project, query: Mapping[str, str]) -> DifferencePage:
    other = _named(project, query.get("with", ""))
    is_same = other is not None and artifact.sha256 != "" and artifact.sha256 == other.sha256
    sides = (side_of(artifact), side_of(other)) if other and not is_same else None
    view: View = "unified" if query.get("view") == "unified" else "side"
    spaces = "spaces" in query
    row = query.get("row", "")
    page = None
    if sides and not any(one.problem for one in sides):
        found = difference(sides[0].text, sides[1].text)
        start = int(row) if row.isdecimal() and len(row) < 10 else 0
        page = diff_page(found, view, spaces=spaces, start=start)
    return DifferencePage(
        artifact=artifact,
        other=other,
        offers=tuple(one for one in _offers(artifact) if one.artifacts),
        sides=sides,
        page=page,
        is_same=is_same,
        view=view,
        spaces=spaces,
    )


def side_of(artifact: Artifact) -> Side:
    try:
        with open_content(artifact) as content:
            return _read(artifact, content)
    except NoContent as no:
        return Side(artifact=artifact, problem=no.absence.sentence)


def _read(artifact: Artifact, content: Content) -> Side:
    if not content.encoding.name:
        return Side(artifact=artifact, size=content.size, problem="It is no text.")
    content.stream.seek(0)
    data = content.stream.read(COMPARED)
    if len(data) < content.size:
        data = data[: data.rfind(b"\n") + 1] or data
    text = decode(data, content.encoding.name)
    return Side(artifact=artifact, text=text, size=content.size, compared=len(data))


def _named(project: Project, said: str) -> Artifact | None:
    try:
        key = UUID(said)
    except ValueError:
        return None
    return _all(project).filter(pk=key).first()


def _all(project: Project) -> QuerySet[Artifact]:
    return project.artifacts.select_related("call__run", "call__source", "observation")


def _offers(artifact: Artifact) -> tuple[Offer, ...]:
    """Of the call, of the same path elsewhere, of the same role in the run."""
    others = (
        Artifact.objects.filter(project=artifact.project_id, state=Artifact.State.PRESENT)
        .exclude(pk=artifact.pk)
        .select_related("call__run")
        .order_by("call__started_at", "ordinal", "pk")
    )
    of_call = others.filter(call=artifact.call_id)
    elsewhere = others.exclude(call=artifact.call_id)
    same_path = elsewhere.filter(path=artifact.path)
    same_role = elsewhere.filter(call__run=artifact.call.run_id, call__tool=artifact.call.tool, role=artifact.role)
    return (
        Offer(reason="Of the same call", artifacts=tuple(of_call[:OFFERED])),
        Offer(reason="The same path, elsewhere", artifacts=tuple(same_path[:OFFERED])),
        Offer(reason=f"{artifact.role} of other calls in this run", artifacts=tuple(same_role[:OFFERED])),
    )
