"""Gives the result of a tool's span that has no call id to the call of the model that it belongs to.

Some instrumentations of OpenTelemetry write no call id on the span of a tool. Its reader makes a call of it, named by
the span, which stands beside the call that the model made. They are one call where they have the same run, tool and
arguments, the call was made before the span began, and its receipt came after the span had ended. Where exactly one
call fits a span, and no other span fits that call, the span's result becomes that of the call, with a remark; so it
does where equal calls and their spans fit in one way only. Where more fit, all stay calls of their own, with a remark
too.

    undo_pairs(format, drafts, run_id)    before a write: takes pairs apart that its records may contradict
    pair_spans(format, runs)              after it: pairs what fits by now

So the pairs follow from the evidence of a run, in whichever order it came. What is taken apart is read again from the
line of its source.
"""

from __future__ import annotations

from ast import literal_eval
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from io import BytesIO
from typing import NamedTuple
from uuid import UUID

import msgspec
from django.db.models import Min

from dashboard.ingest.bulk import bulk_insert, bulk_insert_values, bulk_update, count_stored, unsaved_row
from dashboard.ingest.group_records import CallDraft, Drafts
from dashboard.ingest.remarks import EvidenceRemark, remark_row
from dashboard.ingest.sources import SourceBatch
from dashboard.models import Call, Observation, RecordedReceipt, Remark, Source, load_slices
from dashboard.models.identity import observation_id
from dashboard.models.notes import move_annotations
from dashboard.models.sources import LIVE
from dashboard.text.formatting import column_time, milliseconds_between
from envelopes.recordings import find_format
from envelopes.recordings.base import CallRecord, Format, ResultRecord, SourceLine, SourcePath
from envelopes.text.untrusted_json import dump_json, normalize_json, parse_json

PAIRED = "its result is that of this call: no other one fits by tool, arguments and time"
CONTESTED = "kept as a call of its own: more than one call of the model and span fit by tool, arguments and time"
MOST_LITERAL = 64 * 1024  # bytes: Python takes a hundred times the memory to read them
SURFACES = (Observation.Surface.RESULT, Observation.Surface.TIMING)
CALL_COLUMNS = ("tool_ms", "source_error", "started_at", "ended_at", "duration_ms", "attempt")
EVIDENCE_COLUMNS = ("evidence_version", "derivation", "search_id")


class _Likeness(NamedTuple):
    """The facts that a span and its call have in common."""

    run: UUID
    tool: str
    args: str | bytes


def pair_spans(format_: Format, runs: Collection[UUID]) -> dict[UUID, UUID]:
    """Pairs the spans of these runs; returns by the call of each span, which is gone, the call that has its result."""
    if not format_.unnamed:
        return {}
    unnamed = Call.objects.filter(run__in=runs, external_id__startswith=format_.unnamed).exclude(tool="")
    spans = list(unnamed) if unnamed.exists() else []  # to compose a query for all columns takes twice as long
    if not spans:
        return {}
    calls = Call.objects.filter(run__in=runs, tool__in={span.tool for span in spans}, tool_ms=None)
    calls = calls.exclude(external_id__startswith=format_.unnamed)
    candidates = list(calls.exclude(observations__surface=Observation.Surface.RESULT))
    likenesses = _load_likenesses([*spans, *candidates]) if candidates else {}
    receipts = RecordedReceipt.objects.filter(call__in=candidates).values_list("call").annotate(Min("at"))
    answered: dict[UUID, datetime | None] = dict(receipts.order_by())
    fitting: dict[_Likeness, dict[Call, list[Call]]] = defaultdict(dict)
    for span in spans:
        if likeness := likenesses.get(span.pk):
            alike = (call for call in candidates if likenesses.get(call.pk) == likeness)
            fitting[likeness][span] = [call for call in alike if _fits(span, call, answered.get(call.pk))]
    pairs = [pair for alike in fitting.values() for pair in _match(alike)]
    paired = {span for span, _ in pairs}
    contested = [span for alike in fitting.values() for span, calls in alike.items() if calls and span not in paired]
    _write_contested(runs, contested)
    _write_pairs(pairs)
    return {span.pk: call.pk for span, call in pairs}


def _match(fitting: dict[Call, list[Call]]) -> list[tuple[Call, Call]]:
    """The spans with the one call that fits each; `fitting` are the calls for each of the spans that are alike.

    A call that is the only one for a span leaves the others. That counts where every span gets a call of its own so:
    else a call may have run twice, and the spans of another one may be missing.
    """
    rest = {span: calls for span, calls in fitting.items() if calls}
    count = len(rest)
    pairs: list[tuple[Call, Call]] = []
    while found := [(span, calls[0]) for span, calls in rest.items() if len(calls) == 1]:
        pairs += found
        taken = {call for _, call in found}
        rest = {span: [call for call in calls if call not in taken] for span, calls in rest.items() if len(calls) > 1}
    if len({call for _, call in pairs}) == count:
        return pairs
    rivals = Counter(call for calls in fitting.values() for call in calls)
    return [(span, calls[0]) for span, calls in fitting.items() if len(calls) == 1 and rivals[calls[0]] == 1]


def _load_likenesses(calls: Sequence[Call]) -> dict[UUID, _Likeness]:
    """By call; without those whose arguments were not recorded."""
    by_key = {call.pk: call for call in calls}
    rows = Observation.objects.filter(call__in=calls, surface=Observation.Surface.ARGS, selected=True)
    observations = list(rows)
    load_slices(observations)
    return {
        row.call_id: _Likeness(by_key[row.call_id].run_id, by_key[row.call_id].tool, _normalize_args(bytes(row.data)))
        for row in observations
        if bytes(row.data) != b"null"
    }


def _normalize_args(args: bytes) -> str | bytes:
    """Some instrumentations write the arguments of a span as the source of a Python dict, `{'q': 'x'}`.

    OpenInference writes a single text argument of a LangChain tool without its name, so that name counts nowhere.
    """
    if len(args) > MOST_LITERAL:
        return normalize_json(args)
    try:
        value = parse_json(args)
        if isinstance(value, str) and value.startswith("{"):
            literal = literal_eval(value)
            value = literal if parse_json(dump_json(literal)) == literal else value
        if isinstance(value, dict) and len(value) == 1 and isinstance(only := next(iter(value.values())), str):
            value = only
        return normalize_json(dump_json(value))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):  # Untrusted is a ValueError
        return normalize_json(args)


def _fits(span: Call, call: Call, answered: datetime | None) -> bool:
    """True where the call was made before the span began, and answered after it ended or not yet."""
    if span.started_at is None or call.started_at is None or call.started_at > span.started_at:
        return False
    return answered is None or span.ended_at is None or span.ended_at <= answered


def _write_pairs(pairs: Sequence[tuple[Call, Call]]) -> None:
    if not pairs:
        return
    calls = {span.pk: call for span, call in pairs}
    rows = list(Observation.objects.filter(call__in=calls, surface__in=SURFACES))
    lines = {row.call_id: row for row in Observation.objects.filter(call__in=calls).order_by("surface")}
    for span, call in pairs:
        call.tool_ms, call.source_error = span.tool_ms, span.source_error or call.source_error
        call.ended_at = min((at for at in (call.ended_at, span.ended_at) if at is not None), default=None)
        call.duration_ms = milliseconds_between(call.started_at, call.ended_at)
        call.attempt = max(call.attempt, span.attempt)
        _change_evidence(call)
        move_annotations(span, call)
        Remark.objects.filter(call=span.pk).exclude(kind__in=Remark.Kind.of_evidence()).update(call=call.pk)
    copied = [field.attname for field in Observation._meta.concrete_fields if field.attname not in ("id", "call_id")]
    bulk_insert(
        Observation,
        [
            unsaved_row(
                Observation,
                id=observation_id(calls[row.call_id].pk, row.surface, row.sha256),
                call_id=calls[row.call_id].pk,
                **{name: getattr(row, name) for name in copied},
            )
            for row in rows
        ],
    )
    bulk_update([call for _, call in pairs], [*CALL_COLUMNS, *EVIDENCE_COLUMNS])
    remarks = [_remark_on(call, span.external_id, PAIRED, line=lines.get(span.pk)) for span, call in pairs]
    bulk_insert_values(Remark, remarks, ignore_known=True)
    Remark.objects.filter(call__in=calls).delete()  # on their evidence
    Call.objects.filter(pk__in=calls).delete()


def _change_evidence(call: Call) -> None:
    call.evidence_version += 1
    call.derivation, call.search_id = "", None


def _remark_on(call: Call, span: str, became: str, line: Observation | None) -> dict[str, object]:
    """`line` is evidence of the span, and has its place."""
    finding = EvidenceRemark(Remark.Kind.PAIR, "call id", span, became)
    source, number = (line.source_id, line.line) if line else (call.source_id, call.line)
    return remark_row(finding, run=call.run_id, call=call.pk, source=source, line=number)


def _write_contested(runs: Collection[UUID], spans: Sequence[Call]) -> None:
    known = Remark.objects.filter(run__in=runs, kind=Remark.Kind.PAIR, became=CONTESTED)
    lines = {row.call_id: row for row in Observation.objects.filter(call__in=spans).order_by("surface")}
    rows = [_remark_on(span, span.external_id, CONTESTED, line=lines.get(span.pk)) for span in spans]
    known.exclude(pk__in=[row["id"] for row in rows]).delete()
    bulk_insert_values(Remark, rows, ignore_known=True)


def undo_pairs(format_: Format, drafts: Sequence[Drafts], run_id: Callable[[str], UUID]) -> list[SourceBatch]:
    """Takes pairs apart that these records may contradict; returns the spans' records, to be written with them."""
    if not format_.unnamed:
        return []
    runs = {run_id(name) for draft in drafts for name in draft.runs}
    remarked = count_stored(Remark, "run_id", runs)
    paired = Remark.objects.filter(run__in=remarked, kind=Remark.Kind.PAIR, became=PAIRED).select_related("source")
    pairs = list(paired) if remarked else []
    calls = Call.objects.in_bulk([pair.call for pair in pairs if pair.call]) if pairs else {}
    if not calls:
        return []
    likenesses = _load_likenesses(list(calls.values()))
    added = [draft for part in drafts for draft in part.calls.values()]
    known = dict(Call.objects.filter(pk__in=[draft.id for draft in added]).values_list("pk", "started_at"))
    new = {
        _Likeness(run_id(record.run), record.tool, _normalize_args(record.args or b"null"))
        for draft in added
        for record in draft.calls
        if not _is_known(record, known.get(draft.id))
    }
    by_name = {(run_id(draft.owner), draft.external_id): draft for draft in added}
    batches: list[SourceBatch] = []
    for pair in pairs:
        call = calls.get(pair.call) if pair.call else None
        if call is None or pair.source is None or pair.source.is_partial:
            continue
        own = by_name.get((call.run_id, call.external_id))
        is_repeated = (call.run_id, pair.was) in by_name
        if is_repeated or likenesses.get(call.pk) in new or (own and _contradicts(own, call)):
            batches += _undo(pair, call, pair.source)
    return batches


def _is_known(record: CallRecord, started_at: datetime | None) -> bool:
    """True for a repeated record of a stored call, which adds nothing that a pair depends on."""
    at = column_time(record.at)
    return started_at is not None and (at is None or at >= started_at)


def _contradicts(draft: CallDraft, call: Call) -> bool:
    """True where the call gets a result of its own, or a receipt from before the end of the span.

    A receipt that states how the call ended has a result without content and without times.
    """
    times = [time for receipt in draft.receipts if (time := column_time(receipt.at))]
    is_own = any(result.fidelity != "absent" or result.ended_at is not None for result in draft.results)
    return is_own or (call.ended_at is not None and any(time < call.ended_at for time in times))


def _undo(pair: Remark, call: Call, source: Source) -> Iterator[SourceBatch]:
    """Yields the records of the span, unless its source does not have them any more."""
    line, records = _read_again(source, pair.was, pair.line)
    if line is None:
        return
    Observation.objects.filter(call=call, surface__in=SURFACES).delete()
    call.tool_ms, call.source_error = None, _find_stated_end(call)
    call.ended_at = RecordedReceipt.objects.filter(call=call).aggregate(first=Min("at"))["first"]
    call.duration_ms = milliseconds_between(call.started_at, call.ended_at)
    call.attempt = 1  # it is the span's
    _change_evidence(call)
    bulk_update([call], [*CALL_COLUMNS, *EVIDENCE_COLUMNS])
    pair.delete()
    yield SourceBatch(
        source=source,
        is_known=lambda: True,
        start=0,
        lines=[line],
        records=[msgspec.structs.replace(record, line=pair.line) for record in records],
        problems=[],
        end=0,
    )


def _find_stated_end(call: Call) -> bool | None:
    """True where a receipt of the call states that it failed."""
    for receipt in RecordedReceipt.objects.filter(call=call).select_related("source"):
        _, records = _read_again(receipt.source, call.external_id, receipt.line) if receipt.source else (None, [])
        if any(isinstance(record, ResultRecord) and record.is_error for record in records):
            return True
    return None


def _read_again(source: Source, call: str, number: int) -> tuple[SourceLine | None, list[CallRecord | ResultRecord]]:
    """The line of a call with the number that it had, and its records."""
    raw = b"".join(frame.data for frame in source.frames.order_by("offset"))
    lines, offset = [], 0
    for place, content in enumerate(BytesIO(raw), start=1):
        lines.append(SourceLine(place, offset, content))
        offset += len(content)
    path = SourcePath(source.path, is_live=source.path.startswith(LIVE))
    records = [
        record
        for record in find_format(source.format).read(iter(lines), path, {})
        if isinstance(record, CallRecord | ResultRecord) and record.call == call
    ]
    if not records:
        return None, []
    line = lines[records[0].line - 1]
    return msgspec.structs.replace(line, number=number), records
