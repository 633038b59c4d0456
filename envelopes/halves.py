"""Reads what a source recorded of one call into both of its halves: the canonical result and the receipt.

`read_halves` finds the family of a foreign tool, lets it read the recorded result, projects that, and aligns the
recorded receipt. Odd evidence raises nothing: where a mapping fails on a call, the family `external` reads it, and
`Halves.note` has the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import msgspec

from envelopes.alignment.foreign_receipts import find_unlinked, is_cut_proven
from envelopes.alignment.mapping import Evidence, NoReading, OutputField, Reading, ToolMapping
from envelopes.alignment.receipt_parts import RecordedPart, parse_parts
from envelopes.alignment.saved_outputs import OutputPreview, find_output_preview
from envelopes.alignment.source_cuts import SourceCut, complete_cut
from envelopes.alignment.spans import Span, clip_spans, find_cut, spans_before, to_segments, whole_cut
from envelopes.families import FALLBACK
from envelopes.families.base import Family
from envelopes.families.registry import family, find_mapping
from envelopes.lint.model import Finding, LintInput, Shortened
from envelopes.lint.rules import lint
from envelopes.pipeline.project import Projection, project
from envelopes.schema.budget import UNLIMITED
from envelopes.schema.receipt import Part, Receipt, text_part
from envelopes.schema.result import CanonicalResult, JsonValue, ToolError
from envelopes.storage.sinks import ArtifactSink, MemorySink
from envelopes.text.pointer import text_at
from envelopes.text.preview import Cut
from envelopes.text.untrusted_json import Untrusted, parse_beginning, parse_checked

LIST_ROOM = 3  # bytes of a recorded list that are read for each character of the receipt that is shown
LEAST_MEMBER = 64  # characters of a list's element at the least, to lint: it looks at no more elements than fit
StoredEnvelopes: TypeAlias = Callable[[str], CanonicalResult | None]  # the stored envelope of a mapping


class OutputCut(msgspec.Struct, frozen=True):
    """Which lines of one recorded output field the receipt shows. `cut.shown` counts from 0, in the whole field.

    `prefix_lines` end before the output (`Error: Exit code 2`), `source_cuts` are what the source cut out of the field.
    Not `is_known`: the receipt may have the other lines in an unrecognised form, so they are not called cut.
    """

    field: OutputField
    cut: Cut
    source_cuts: tuple[SourceCut, ...] = ()
    is_known: bool = True
    prefix_lines: int = 0

    @property
    def recorded(self) -> Cut:
        """The cut of the recorded output, without what the field has in front of it."""
        return complete_cut(self.cut, self._prefix)

    @property
    def complete(self) -> Cut:
        """The cut of the complete output, of which the recorded one may be a part."""
        return complete_cut(self.cut, (*self._prefix, *self.source_cuts))

    @property
    def _prefix(self) -> tuple[SourceCut, ...]:
        """The lines in front of the output, as a gap that counts no line of it."""
        gap = SourceCut(pointer=self.field.pointer, unit="lines", end=self.prefix_lines)
        return (gap,) if self.prefix_lines else ()


class Halves(msgspec.Struct, frozen=True, kw_only=True):
    """Both halves of a recorded call.

    `receipt` is aligned: its sources point into the recorded result (`complete`) or the arguments. `aligned` counts
    the characters at its beginning that were aligned, None for all of them; `has_more_links` is true when each part
    was seen to have links behind those characters. `is_beginning`: `evidence` may have of the result's long lists
    their beginning alone. `preview` is set where the receipt is that of a saved output. `sent` is the receipt that the
    model had before this one took its place: `outputs` and the cuts of the reading are then of that one.

    >>> halves = read_halves(agent="a", tool="T", args=b"{}", result=None, content=b'"done"', is_error=None)
    >>> halves.family, halves.receipt.text
    ('external', 'done')
    """

    family: str
    mapping: str
    evidence: Evidence
    reading: Reading
    projection: Projection
    receipt: Receipt | None
    outputs: tuple[OutputCut, ...] = ()
    preview: OutputPreview | None = None
    note: str = ""
    aligned: int | None = None
    has_more_links: bool = False
    is_beginning: bool = False
    sent: Receipt | None = None

    @property
    def known_outputs(self) -> tuple[OutputCut, ...]:
        """Those of which it is known what the receipt has of them."""
        return tuple(output for output in self.outputs if output.is_known)

    @property
    def is_cut(self) -> bool:
        """True when a part of the output did not reach the model, as far as the halves show it.

        A preview that took the place of a text later is no cut: the model had that text.
        """
        if self.receipt is None or self.reading.is_cut_unknown:
            return False
        is_short = any(not output.complete.is_whole for output in self.known_outputs)
        is_preview = self.preview is not None and not self.preview.is_later
        return is_short or bool(self.reading.source_cuts) or is_preview


class _Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call, and how it is to be read."""

    evidence: Evidence
    parts: tuple[RecordedPart, ...] | None
    answer: tuple[RecordedPart, ...] | None
    is_answer_sent: bool
    sink: ArtifactSink
    stored: StoredEnvelopes
    is_linked: bool
    first: int | None


def read_halves(
    *,
    agent: str,
    tool: str,
    args: bytes | None,
    result: bytes | None,
    content: bytes | None,
    is_error: bool | None,
    answer: bytes | None = None,
    is_answer_sent: bool = False,
    skip: ToolError | None = None,
    is_further: bool = False,
    sink: ArtifactSink | None = None,
    stored: StoredEnvelopes | None = None,
    is_linked: bool = True,
    first: int | None = None,
) -> Halves:
    """Reads a call of a foreign agent from its recorded JSON. `content` is that of the receipt.

    The bytes lie within lines that `untrusted_json.check_json` passed; what cannot be decoded is treated as absent and
    noted. `args` None: not recorded. `answer` is the content of the first receipt where another one took its place: it
    has what the tool returned, where no result was recorded, and which lines the model saw, where it had been sent
    (`is_answer_sent`). `skip` is the reason of a call that was skipped or refused; without a message it is the kind of
    the recorded failure. `is_further`: the model has earlier receipts of it too. `stored` gives the stored envelope of
    a mapping, which is then not computed again. Not `is_linked`: the segments of the receipt come without sources, for
    a caller that only counts characters.

    `first`: align only this many characters of the receipt. Allowed when the import recorded that nothing was cut
    from the outputs, and used when an envelope is stored.

    >>> halves = read_halves(
    ...     agent="claude-code", tool="Bash", args=b'{"command": "make test"}', is_error=False,
    ...     result=b'{"stdout": "3 passed", "stderr": "", "interrupted": false}', content=b'"3 passed"',
    ... )
    >>> halves.family, halves.projection.canonical.status, halves.receipt.segments[0].source.pointer
    ('command', 'success', '/stdout')
    """
    notes: list[str] = []
    parts = _parse_receipt(content, notes)
    evidence = Evidence(
        agent=agent,
        tool=tool,
        args=None if args is None else _parse(args, "args", notes),
        has_result=result is not None,
        receipt_text=_join_texts(parts),
        is_error=is_error,
        skip=skip if skip and (result is None or not skip.message) else None,
        is_further=is_further,
    )
    call = _Recorded(
        evidence=evidence,
        parts=parts,
        answer=_parse_receipt(answer if result is None or is_answer_sent else None, notes),
        is_answer_sent=is_answer_sent,
        sink=sink or MemorySink(),
        stored=cache(stored or (lambda _mapping: None)),
        is_linked=is_linked,
        first=first,
    )
    return _read_result(call, result, notes)


def project_complete(halves: Halves, result: bytes | None) -> Projection:
    """The canonical result with every recorded text and list as far as it was recorded: a view, and never stored.

    `result` is the recorded one: of a long list, `halves` may have only the beginning. A field that the family bounds
    by its nature (an image's data) keeps that bound, and its cut is in the projection.

    >>> text = b'"' + b"a line\\n" * 5_000 + b'"'
    >>> halves = read_halves(agent="a", tool="T", args=b"{}", result=text, content=None, is_error=None)
    >>> len(project_complete(halves, text).canonical.result["text"]), len(halves.projection.canonical.result["text"])
    (35000, 8051)
    """
    reading = halves.reading
    if halves.is_beginning and result is not None:
        evidence = msgspec.structs.replace(halves.evidence, result=_parse(result, "result", []))
        mappings = (find_mapping(evidence.agent, evidence.tool), FALLBACK)
        mapping = next(mapping for owner, mapping in mappings if owner.name == halves.family)
        reading = mapping.read(evidence)
    return project(reading.complete, family(halves.family), UNLIMITED, MemorySink())


def lint_recorded(
    halves: Halves, *, has_artifact: Callable[[str], bool] | None = None, is_whole: bool = True
) -> tuple[Finding, ...]:
    """The lint findings of a recorded receipt. Not `is_whole`: only its beginning is here."""
    if halves.receipt is None:
        return ()
    call = LintInput(
        canonical=halves.projection.canonical,
        receipt=halves.receipt,
        is_recorded=True,
        is_whole=is_whole,
        complete=halves.evidence.result,
        cuts=tuple(Shortened(output.field.pointer, output.cut, "complete") for output in halves.known_outputs),
        has_artifact=has_artifact,
    )
    return lint(call, family(halves.family).lint)


def _join_texts(parts: Sequence[RecordedPart] | None) -> str | None:
    return None if parts is None else "".join(part for part in parts if isinstance(part, str))


def _parse(raw: bytes, surface: str, notes: list[str]) -> JsonValue:
    try:
        return parse_checked(raw)
    except Untrusted as error:
        notes.append(f"{surface}: {error.reason}")
        return None


def _parse_receipt(content: bytes | None, notes: list[str]) -> tuple[RecordedPart, ...] | None:
    return None if content is None else parse_parts(_parse(content, "receipt", notes))


def _read_result(call: _Recorded, result: bytes | None, notes: list[str]) -> Halves:
    """Reads the call with the beginning of a long result, where that is enough, else with all of it."""
    if result and call.first and (halves := _read_beginning(result, call, list(notes))):
        return halves
    value = _parse(result, "result", notes) if result is not None else None
    if value is None and result not in (None, b"null"):  # it could not be decoded
        call = msgspec.structs.replace(call, evidence=msgspec.structs.replace(call.evidence, has_result=False))
    return _read(call, value, notes)


def _read_beginning(result: bytes, call: _Recorded, notes: list[str]) -> Halves | None:
    """The halves with the beginning of the result's long lists; None where that is not enough."""
    beginning = _parse_beginning(result, call)
    halves = None if beginning is None else _read(call, beginning, notes)
    return msgspec.structs.replace(halves, is_beginning=True) if halves and halves.has_more_links else None


def _parse_beginning(result: bytes, call: _Recorded) -> JsonValue:
    """The result with the beginning of its long lists, where that may be enough: its envelope is stored."""
    owner, mapping = find_mapping(call.evidence.agent, call.evidence.tool)
    first = call.first or 0
    if not mapping.lists or len(result) <= LIST_ROOM * first or call.stored(_mapping_name(owner, mapping)) is None:
        return None
    try:
        return parse_beginning(result, mapping.lists, LIST_ROOM * first, first // LEAST_MEMBER + 1)
    except Untrusted:
        return None


def _read(call: _Recorded, result: JsonValue, notes: list[str]) -> Halves:
    """Reads the call with its own family, else with external, else with external as a call without content."""
    call = msgspec.structs.replace(call, evidence=msgspec.structs.replace(call.evidence, result=result))
    for owner, mapping in (find_mapping(call.evidence.agent, call.evidence.tool), FALLBACK):
        try:
            halves = _apply(owner, mapping, call)
            break
        except NoReading:
            continue
        except Exception as error:
            notes.append(f"{owner.name} could not read this call ({type(error).__name__}: {error})")
    else:
        nothing = msgspec.structs.replace(call.evidence, args=None, result=None, has_result=False, receipt_text=None)
        halves = _apply(owner, mapping, msgspec.structs.replace(call, evidence=nothing, parts=None, answer=None))
        halves = msgspec.structs.replace(halves, evidence=call.evidence, receipt=_receipt(call, []))
    return msgspec.structs.replace(halves, note="; ".join(notes))


def _apply(owner: Family, mapping: ToolMapping, call: _Recorded) -> Halves:
    if call.answer is not None and call.is_answer_sent:
        return _apply_later(owner, mapping, call)
    envelope = call.stored(_mapping_name(owner, mapping))
    until = None if envelope is None else call.first
    reading = _read_answer(mapping, call)
    projection = Projection(envelope) if envelope else project(reading.complete, owner, owner.projection, call.sink)
    spans, has_more_links = _align(mapping, call, until)
    preview = _find_preview(call.evidence, reading)
    seen = [span for part in spans for span in part]
    if preview and preview.is_inflated:
        seen = clip_spans(seen, preview.seen_end(call.evidence.receipt_text or ""))
    return Halves(
        family=owner.name,
        mapping=_mapping_name(owner, mapping),
        evidence=call.evidence,
        reading=reading,
        projection=projection,
        receipt=_receipt(call, spans if call.is_linked else []),
        outputs=_output_cuts(call, reading, seen, spans, is_whole=until is not None),
        preview=preview,
        aligned=until,
        has_more_links=has_more_links,
    )


def _apply_later(owner: Family, mapping: ToolMapping, call: _Recorded) -> Halves:
    """Shows a receipt that took the place of the first one: what came back and what was cut is that of the first."""
    evidence = msgspec.structs.replace(call.evidence, receipt_text=_join_texts(call.answer))
    sent = msgspec.structs.replace(call, evidence=evidence, parts=call.answer, answer=None, first=None)
    first = _apply(owner, mapping, sent)
    try:
        later = _apply(owner, mapping, msgspec.structs.replace(call, answer=None, sink=MemorySink()))
    except NoReading:  # a placeholder has no form of the tool's
        later = msgspec.structs.replace(first, receipt=_receipt(call, []), aligned=None, has_more_links=False)
    # The places of a preview of the first receipt are none of this one.
    preview = later.preview if later.preview and later.preview.is_later else None
    return msgspec.structs.replace(
        first,
        evidence=call.evidence,
        receipt=later.receipt,
        preview=preview,
        aligned=later.aligned,
        has_more_links=later.has_more_links,
        sent=first.receipt,
    )


def _read_answer(mapping: ToolMapping, call: _Recorded) -> Reading:
    """Reads what the tool returned from its first receipt; what is known of a cut is that of the receipt in view."""
    if call.answer is None:
        return mapping.read(call.evidence)
    first = mapping.read(msgspec.structs.replace(call.evidence, receipt_text=_join_texts(call.answer)))
    try:
        shown = mapping.read(call.evidence)
    except NoReading:  # a placeholder has no form of the tool's
        return msgspec.structs.replace(first, source_cuts=())
    return msgspec.structs.replace(first, source_cuts=shown.source_cuts, is_cut_unknown=shown.is_cut_unknown)


def _align(mapping: ToolMapping, call: _Recorded, until: int | None) -> tuple[list[list[Span]], bool]:
    """The spans of each part that begin before character `until` of all text; true when each part has more."""
    aligned: list[list[Span]] = []
    has_more = True
    at = 0
    for part in call.parts or ():
        spans: list[Span] = []
        if isinstance(part, str):
            if until is None or at < until:
                spans, part_has_more = spans_before(
                    mapping.align(call.evidence, part), None if until is None else until - at
                )
                has_more = has_more and part_has_more
            at += len(part)
        aligned.append(spans)
    return aligned, has_more


def _mapping_name(owner: Family, mapping: ToolMapping) -> str:
    return f"{owner.name}:{mapping.agent}:{mapping.version}"


def _receipt(call: _Recorded, spans: list[list[Span]]) -> Receipt | None:
    """The recorded receipt with the spans of each part as sources; `spans` is empty for one without sources."""
    if call.parts is None:
        return None
    parts: list[Part] = [
        text_part(part, to_segments(part, part_spans)) if isinstance(part, str) else part
        for part, part_spans in zip(call.parts, spans or [[] for _ in call.parts], strict=True)
    ]
    return Receipt(tuple(parts))


def _output_cuts(
    call: _Recorded,
    reading: Reading,
    seen: list[Span],
    spans: list[list[Span]],
    *,
    is_whole: bool,
) -> tuple[OutputCut, ...]:
    """`seen` are the spans that the model got, `spans` all of each part.

    Outputs of which nothing is linked may stand in the receipt in a form that their family does not know: that they
    are missing has to be proven then, whatever the family claims.

    `is_whole`: the import found no cut, and only the beginning of the receipt was aligned.
    """
    own_by_pointer: dict[str, list[Span]] = defaultdict(list)
    for span in seen if reading.outputs else ():
        if span.document == "complete":
            own_by_pointer[span.pointer].append(span)
    is_linked = is_whole or any(field.pointer in own_by_pointer for field in reading.outputs)
    can_prove = not is_whole and (not is_linked or any(field.claim != "certain" for field in reading.outputs))
    note = find_unlinked(call.parts or (), spans) if can_prove else None
    cuts: list[OutputCut] = []
    for field in reading.outputs:
        own = own_by_pointer.get(field.pointer, [])
        text = text_at(call.evidence.result, field.pointer)
        if not text or (field.claim == "shortened" and not own):
            continue
        cut = whole_cut(text) if is_whole and field.claim == "certain" else find_cut(text, own, start=field.start)
        source_cuts = tuple(gap for gap in reading.source_cuts if gap.pointer == field.pointer)
        is_known = (is_linked and field.claim == "certain") or cut.is_whole or call.parts is None
        if not is_known and note is not None:
            is_known = is_cut_proven(text, cut, note, is_linked=bool(own))
        if field.claim != "shortened" or (is_known and not cut.is_whole):
            prefix, cut = text.count("\n", 0, field.start), field.with_blank_line(cut)
            cuts.append(OutputCut(field, cut, source_cuts, is_known=is_known, prefix_lines=prefix))
    return tuple(cuts)


def _find_preview(evidence: Evidence, reading: Reading) -> OutputPreview | None:
    """The preview that the receipt is; None where the tool's own output begins like one."""
    preview = find_output_preview(evidence.receipt_text or "")
    outputs = [text_at(evidence.result, field.pointer) or "" for field in reading.outputs] if preview else []
    return None if any(find_output_preview(text.lstrip()) for text in outputs) else preview
