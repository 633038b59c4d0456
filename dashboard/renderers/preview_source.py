"""What a preview writes a receipt of: a recorded call, a bundled sample, or an envelope that was pasted.

    ?call=<id>  ?sample=<name>  ?pasted=<sha256>

Without any of them it is the first sample, so that every family has something to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from dashboard.evidence.call_evidence import surfaces_of
from dashboard.models import Call, Project, RunFacet
from dashboard.renderers.preview_pasted import kept, parsed
from dashboard.variants.render_call import CannotRender, load_canonical, load_cuts
from envelopes.families.base import Family
from envelopes.lint.model import Shortened
from envelopes.pipeline.project import project as to_canonical
from envelopes.schema.result import CanonicalResult, CompleteOutput
from envelopes.storage.file_store import MemorySink
from envelopes.text.tokens import TokenCount
from envelopes.text.untrusted_json import dump_json

NO_LINKS = 0  # of the recorded receipt the text is compared, and nothing else is asked of it
RECENT_RUNS = 4
RECENT_CALLS = 12


class NoSubject(ValueError):
    """A sentence for the operator; `href` leads to what was meant, where that is known."""

    def __init__(self, reason: str, href: str = "") -> None:
        super().__init__(reason)
        self.href = href


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`named` is its part of the address. `recorded` is the text that the model got of a recorded call, if any."""

    kind: str  # call | sample | pasted
    title: str
    named: Mapping[str, str]
    canonical: CanonicalResult
    call: Call | None = None
    recorded: str | None = None
    recorded_tokens: TokenCount | None = None
    cuts: tuple[Shortened, ...] = ()
    model: str = ""

    @cached_property
    def raw(self) -> bytes:
        return dump_json(self.canonical.to_json())


@dataclass(frozen=True, kw_only=True)
class SampleName:
    name: str
    is_current: bool


def subject(project: Project, owner: Family, query: Mapping[str, str]) -> Subject:
    """Raises NoSubject."""
    if query.get("call"):
        return of_call(_call(project, query["call"].strip()), owner)
    if query.get("pasted"):
        return _pasted(project, owner, query["pasted"])
    return _sample(owner, query.get("sample", ""))


def of_call(call: Call, owner: Family) -> Subject:
    """Raises NoSubject for a call of another family, and for one without a readable envelope."""
    surfaces = surfaces_of(call, {}, first=NO_LINKS)
    try:
        call_family, canonical = load_canonical(surfaces)
    except CannotRender as error:
        raise NoSubject(str(error)) from None
    if call_family.name != owner.name:
        raise NoSubject(
            f"This call is one of the {call_family.name} family, not of {owner.name}.",
            f"/renderers/{call_family.name}/?call={call.pk}",
        )
    return Subject(
        kind="call",
        title=f"{call.tool}: {call.summary}",
        named={"call": str(call.pk)},
        canonical=canonical,
        call=call,
        recorded=surfaces.receipt_text if surfaces.halves.receipt else None,
        recorded_tokens=surfaces.receipt_tokens if surfaces.halves.receipt else None,
        cuts=load_cuts(surfaces),
        model=call.run.model,
    )


def _call(project: Project, key: str) -> Call:
    """By the id in its address, or by the agent's own id."""
    try:
        found = project.calls.with_run_and_source().filter(pk=UUID(key)).first()
    except ValueError:
        named = project.calls.filter(external_id=key).select_related("run", "source")
        found = named.order_by("-started_at", "pk").first()
    if found is None:
        raise NoSubject("There is no such call in this project: give the id of its address, or the agent's own id.")
    return found


def _pasted(project: Project, owner: Family, sha256: str) -> Subject:
    raw = kept(project, sha256)
    if raw is None:
        raise NoSubject("This pasted envelope is no longer kept: paste it again.")
    return Subject(kind="pasted", title="Pasted envelope", named={"pasted": sha256}, canonical=parsed(raw), model="")


def _sample(owner: Family, name: str) -> Subject:
    found = sample_outputs(owner)
    if not found:
        raise NoSubject("This family has no sample: pick a recorded call, or paste an envelope.")
    name = name or next((one for one in found if one.endswith("/large")), next(iter(found)))
    if name not in found:
        raise NoSubject("This family has no such sample.")
    projection = to_canonical(found[name], owner, owner.projection, MemorySink())
    return Subject(
        kind="sample",
        title=f"Sample {name}",
        named={"sample": name},
        canonical=projection.canonical,
        cuts=tuple(Shortened(one.pointer, one.cut) for one in projection.cuts),
    )


def sample_outputs(owner: Family) -> dict[str, CompleteOutput]:
    """The gallery by its names, then the family's other samples, numbered by tool."""
    found = dict(owner.gallery)
    known = {id(one) for one in found.values()}
    for one in owner.samples:
        if id(one) not in known:
            number = sum(name.rpartition("/")[0] == one.tool_name for name in found) + 1
            found[f"{one.tool_name}/{number}"] = one
    return found


def recent_calls(project: Project, owner: Family) -> list[Call]:
    """Of the latest runs that used the family: metadata only, found through the facets' index."""
    facets = RunFacet.objects.filter(project=project, kind="family", value=owner.name).order_by("-sort_at", "-run")
    runs = list(facets.values_list("run", flat=True)[:RECENT_RUNS])
    calls = project.calls.filter(run__in=runs, family=owner.name).order_by("-started_at", "pk")
    return list(calls[:RECENT_CALLS])
