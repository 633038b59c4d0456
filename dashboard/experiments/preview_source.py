"""The sources of a preview: a recorded call, a bundled sample, or an envelope that an operator pasted.

    ?call=<id>  ?sample=<name>  ?pasted=<sha256>

Without any of them it is a sample, so that every family has something to show. Pasted envelopes are stored under their
hash, so that the address of a preview holds its whole state; each project keeps its latest ones.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

import msgspec
from django.db.models import F
from django.urls import reverse

from dashboard.evidence.call_evidence import load_evidence
from dashboard.models import Call, PastedEnvelope, Project, RunFacet
from dashboard.text import json_markup
from dashboard.text.text_markup import FIRST_CHARS, TextChunk
from dashboard.variants.render_call import CannotRender, load_canonical, load_cuts
from envelopes.families.base import Family
from envelopes.lint.model import Shortened
from envelopes.pipeline.project import project as to_canonical
from envelopes.schema.result import SUMMARY_CHARACTERS, CanonicalResult, CompleteOutput, InvalidOutput
from envelopes.storage.sinks import MemorySink
from envelopes.text.tokens import TokenCount
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

NO_LINKS = 0  # characters of the recorded receipt to align: its text alone is compared
RECENT_RUNS = 4
RECENT_CALLS = 12
PASTE_BYTES = 256_000
PASTES_KEPT = 100  # a project


class NoSource(ValueError):
    """There is nothing to render; the sentence is for the operator, and `href` leads on where that is known."""

    def __init__(self, reason: str, href: str = "") -> None:
        super().__init__(reason)
        self.href = href


class InvalidEnvelope(ValueError):
    """`path` is a JSON path into the pasted text, `line` counts from 1 where the position is known."""

    def __init__(self, reason: str, path: str = "$", line: int | None = None) -> None:
        super().__init__(reason)
        self.path = path
        self.line = line


@dataclass(frozen=True, kw_only=True)
class PreviewSource:
    """`query` is its part of the address. `recorded` is the text that the model got of a recorded call, if any."""

    kind: str  # call | sample | pasted
    title: str
    query: Mapping[str, str]
    canonical: CanonicalResult
    call: Call | None = None
    recorded: str | None = None
    recorded_tokens: TokenCount | None = None
    cuts: tuple[Shortened, ...] = ()
    model: str = ""

    @cached_property
    def raw(self) -> bytes:
        return dump_json(self.canonical.to_json())

    @cached_property
    def window(self) -> TextChunk:
        """The beginning of the envelope, computed on demand: no option and no change of a draft changes it."""
        return json_markup.first_chunk(json_markup.indent_json(self.raw), FIRST_CHARS, "data-pointer")


def load_source(project: Project, owner: Family, query: Mapping[str, str]) -> PreviewSource:
    """Raises NoSource."""
    if query.get("call"):
        return load_call_source(_load_call(project, query["call"].strip()), owner)
    if query.get("pasted"):
        sha256 = query["pasted"]
        row = PastedEnvelope.objects.filter(project=project, sha256=sha256).first()
        if row is None:
            raise NoSource("This pasted envelope is no longer kept: paste it again.")
        canonical = parse_envelope(bytes(row.data))
        return PreviewSource(kind="pasted", title="Pasted envelope", query={"pasted": sha256}, canonical=canonical)
    return _project_sample(owner, query.get("sample", ""))


def load_call_source(call: Call, owner: Family) -> PreviewSource:
    """Raises NoSource for a call of another family, and for one without a readable envelope."""
    evidence = load_evidence(call, {}, first=NO_LINKS)
    try:
        call_family, canonical = load_canonical(evidence)
    except CannotRender as error:
        raise NoSource(str(error)) from None
    if call_family.name != owner.name:
        raise NoSource(
            f"This call is one of the {call_family.name} family, not of {owner.name}.",
            f"{reverse('renderer-detail', args=[call_family.name])}?call={call.pk}",
        )
    return PreviewSource(
        kind="call",
        title=f"{call.tool}: {call.summary}",
        query={"call": str(call.pk)},
        canonical=canonical,
        call=call,
        recorded=evidence.receipt_text if evidence.halves.receipt else None,
        recorded_tokens=evidence.receipt_tokens if evidence.halves.receipt else None,
        cuts=load_cuts(evidence),
        model=call.run.model,
    )


def _load_call(project: Project, key: str) -> Call:
    """The call with that id of ours, or the newest with that id of the agent's. Raises NoSource."""
    calls = project.calls.with_run_and_source()
    try:
        call = calls.filter(pk=UUID(key)).first()
    except ValueError:
        call = calls.filter(external_id=key).order_by(F("started_at").desc(nulls_last=True), "pk").first()
    if call is None:
        raise NoSource("There is no such call in this project: give the id of its address, or the agent's own id.")
    return call


def _project_sample(owner: Family, name: str) -> PreviewSource:
    samples = name_samples(owner)
    if not samples:
        raise NoSource("This family has no sample: pick a recorded call, or paste an envelope.")
    name = name or next((known for known in samples if known.endswith("/large")), next(iter(samples)))
    if name not in samples:
        raise NoSource("This family has no such sample.")
    projection = to_canonical(samples[name], owner, owner.projection, MemorySink())
    return PreviewSource(
        kind="sample",
        title=f"Sample {name}",
        query={"sample": name},
        canonical=projection.canonical,
        cuts=tuple(Shortened(cut.pointer, cut.cut) for cut in projection.cuts),
    )


def name_samples(owner: Family) -> dict[str, CompleteOutput]:
    """The gallery by its names, then the family's other samples, numbered by tool."""
    samples = dict(owner.gallery)
    known = {id(sample) for sample in samples.values()}
    for sample in owner.samples:
        if id(sample) not in known:
            number = sum(name.rpartition("/")[0] == sample.tool_name for name in samples) + 1
            samples[f"{sample.tool_name}/{number}"] = sample
    return samples


def recent_calls(project: Project, owner: Family) -> list[Call]:
    """Calls of the latest runs that used the family. Metadata only; the facets' index finds the runs."""
    facets = RunFacet.objects.filter(project=project, kind="family", value=owner.name).order_by("-sort_at", "-run")
    runs = list(facets.values_list("run", flat=True)[:RECENT_RUNS])
    calls = project.calls.filter(run__in=runs, family=owner.name).order_by(F("started_at").desc(nulls_last=True), "pk")
    return list(calls[:RECENT_CALLS])


def store_pasted(project: Project, text: str, *, limit: int = PASTES_KEPT) -> str:
    """Stores a pasted envelope, deletes the oldest beyond `limit`, and returns its sha256. Raises InvalidEnvelope."""
    raw = text.strip().encode("utf-8", "surrogatepass")
    if len(raw) > PASTE_BYTES:
        raise InvalidEnvelope(f"{len(raw):,} bytes were pasted; at most {PASTE_BYTES:,} are accepted")
    data = dump_json(parse_envelope(raw).to_json())
    sha256 = hashlib.sha256(data).hexdigest()
    pasted = PastedEnvelope.objects.filter(project=project)
    PastedEnvelope.objects.get_or_create(project=project, sha256=sha256, defaults={"data": data})
    stale = pasted.order_by("-id").values_list("pk", flat=True)[limit:]
    pasted.filter(pk__in=list(stale)).delete()
    return sha256


def parse_envelope(raw: bytes) -> CanonicalResult:
    """Raises InvalidEnvelope with the path of what is wrong."""
    try:
        document = parse_json(raw)
        canonical = CanonicalResult.from_json(document)
    except Untrusted as error:
        raise InvalidEnvelope(error.reason, error.path, _find_line(raw, error.reason)) from None
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at ")
        raise InvalidEnvelope(reason, path.strip("`") or "$") from None
    except InvalidOutput as error:
        raise InvalidEnvelope(str(error)) from None
    for key in document if isinstance(document, dict) else ():
        if key not in CanonicalResult.__struct_fields__:
            raise InvalidEnvelope("an envelope has no such member (RFC-021)", f"$.{key}")
    if not canonical.summary_text:
        raise InvalidEnvelope("the summary is empty (RFC-027)", "$.summary_text")
    if len(canonical.summary_text) > SUMMARY_CHARACTERS:
        raise InvalidEnvelope(f"the summary is longer than {SUMMARY_CHARACTERS} characters (RFC-029)", "$.summary_text")
    return canonical


def _find_line(raw: bytes, reason: str) -> int | None:
    """The line of the character or byte that the reason of a JSON error names."""
    position = re.search(r"at (character|byte) (\d+)", reason)
    if position is None:
        return None
    end = int(position[2])
    before = raw[:end] if position[1] == "byte" else raw.decode("utf-8", "replace")[:end].encode()
    return before.count(b"\n") + 1
