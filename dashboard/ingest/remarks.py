"""Remarks: values of a recording that were changed, left out or assumed, as rows of `Remark`.

remark_row        the row of what a reader reports, or of what follows from evidence
length_remarks    records with a text that is longer than its column
evidence_remarks  what follows from a call's evidence; a pure function, computed with its columns
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.models import Call, Observation, Remark
from dashboard.models.identity import derive_id
from dashboard.text.formatting import column_text
from dashboard.text.text_markup import UNPRINTABLE
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    MessageRecord,
    Record,
    RemarkRecord,
    RunRecord,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.json_lines import remark
from envelopes.schema.settlement import read_end
from envelopes.text.pointer import join
from envelopes.text.untrusted_json import Untrusted, array_slices, is_portable, normalize_json, object_members

Kind = Remark.Kind
MOST_IN_PAYLOAD = 20
SECOND = {
    "args": (Kind.ARGUMENTS, "kept beside the other arguments, which the page shows"),
    "result": (Kind.RESULT, "kept beside the other result, which the page shows"),
}
LIMITS: dict[type[Any], dict[str, int]] = {  # characters of the columns
    RunRecord: {"run": 300, "title": 300, "agent": 100, "model": 100, "version": 50, "cwd": 500, "branch": 300},
    CallRecord: {"call": 300, "tool": 200, "step": 200},
    SupersedeRecord: {"reason": 200},
    ArtifactRecord: {"role": 64, "path": 1024},
    MessageRecord: {"role": 32, "step": 200},
    EventRecord: {"kind": 100, "message": 500},
    UsageRecord: {"request": 200},
}
_IMITATED = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")  # scripts with letters that look like Latin ones


class EvidenceRemark(NamedTuple):
    kind: Kind
    path: str
    was: str
    became: str


def remark_row(
    finding: EvidenceRemark | RemarkRecord, *, run: UUID, call: UUID | None, source: int | None, line: int
) -> dict[str, Any]:
    """All columns. A remark on a call's evidence is the same in each run that has the call."""
    was = column_text(finding.was, 200)
    owner = b"" if call and isinstance(finding, EvidenceRemark) else run.bytes
    return {
        "id": derive_id("remark", owner, call.bytes if call else b"", line, finding.kind, finding.path, was),
        "run_id": run,
        "call": call,
        "source_id": source,
        "line": line,
        "kind": str(finding.kind),
        "path": column_text(finding.path, 500),
        "was": was,
        "became": column_text(finding.became, 200),
    }


def length_remarks(records: Iterable[Record]) -> Iterator[RemarkRecord]:
    for record in records:
        for name, limit in LIMITS.get(type(record), {}).items():
            text = getattr(record, name)
            if text is not None and len(text) > limit:
                became = f"shown and filtered by its first {limit} characters"
                call = getattr(record, "call", None)
                was = text.encode("utf-8", "surrogatepass")
                owner = getattr(record, "owner", None)
                yield remark("length", name, was, became, line=record.line, run=record.run, call=call, owner=owner)


def evidence_remarks(
    call: Call,
    observations: Sequence[Observation],
    selected: dict[str, Observation],
    recorded_end: str,
    in_columns: Iterable[EvidenceRemark] = (),
) -> list[dict[str, Any]]:
    """`observations` are all of the call, `selected` those that its columns follow from, with their bytes.

    `in_columns` are remarks on values that a column cannot hold.
    """
    findings: list[tuple[EvidenceRemark, Observation | None]] = []
    for surface in ("args", "result", "receipt"):
        if observation := selected.get(surface):
            payload = _find_in_payload(bytes(observation.data), surface)
            findings += [(finding, observation) for finding in islice(payload, MOST_IN_PAYLOAD)]
    args = selected.get("args")
    if args is not None and not bytes(args.data).lstrip().startswith((b"{", b"null")):
        was = _beginning(bytes(args.data))
        findings.append((EvidenceRemark(Kind.ARGUMENTS, "args", was, "kept as it is: no object"), args))
    for row in observations:
        first = selected.get(row.surface) if row.surface in SECOND else None
        if first not in (None, row) and not _is_same(bytes(first.data), bytes(row.data)):
            kind, became = SECOND[row.surface]
            findings.append((EvidenceRemark(kind, row.surface, _beginning(bytes(row.data)), became), row))
    findings += [(finding, None) for finding in (*_find_in_columns(call, recorded_end), *in_columns)]
    return [
        remark_row(
            finding,
            run=call.run_id,
            call=call.pk,
            source=observation.source_id if observation else call.source_id,
            line=observation.line if observation else call.line,
        )
        for finding, observation in findings
    ]


def _is_same(first: bytes, second: bytes) -> bool:
    """True for JSON that differs at most in spacing and the order of members: two records of one value."""
    return first == second or normalize_json(first) == normalize_json(second)


def _find_in_columns(call: Call, recorded_end: str) -> Iterator[EvidenceRemark]:
    if recorded_end and read_end(recorded_end) is None:
        yield EvidenceRemark(
            Kind.STATUS, "status", recorded_end, "an unknown word: the outcome follows from the result"
        )
    if call.started_at and call.ended_at and call.ended_at < call.started_at:
        was = f"{call.started_at:%Y-%m-%dT%H:%M:%S.%fZ} to {call.ended_at:%Y-%m-%dT%H:%M:%S.%fZ}"
        yield EvidenceRemark(Kind.CLOCK, "timestamp", was, "no duration: the clock ran backwards")
    name = call.tool.removesuffix("…")  # of a name that is longer than the column
    if odd := _odd_letters(name):
        yield EvidenceRemark(Kind.NAME, "tool", call.tool, f"kept as it is: {odd}")


def _odd_letters(name: str) -> str:
    if name.isascii() and name.isprintable():
        return ""
    if not name.isprintable() or UNPRINTABLE.search(name):
        return "it has characters that hide"
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in name if letter.isalpha()}
    imitated = [script for script in _IMITATED if script in scripts]
    if imitated and "LATIN" in scripts:
        return f"Latin letters beside {imitated[0].title()} ones that look alike"
    return "letters that imitate others" if unicodedata.normalize("NFKC", name) != name else ""


def _find_in_payload(raw: bytes, path: str) -> Iterator[EvidenceRemark]:
    if not is_portable(raw):
        yield from _find_in_value(raw, path)


def _find_in_value(raw: bytes, path: str) -> Iterator[EvidenceRemark]:
    raw = raw.strip()
    try:
        match raw[:1]:
            case b"{":
                values: dict[str, bytes] = {}
                for key, value in object_members(raw):
                    if key in values:
                        became = "the last value of this key is read"
                        yield EvidenceRemark(Kind.KEY, join(path, key), _beginning(values[key]), became)
                    values[key] = value
                for key, value in values.items():
                    yield from _find_in_value(value, join(path, key))
            case b"[":
                for index, value in enumerate(array_slices(raw)):
                    yield from _find_in_value(value, join(path, index))
            case b'"' | b"t" | b"f" | b"n":
                pass
            case _:
                yield from _find_in_number(raw, path)
    except Untrusted:
        return


def _find_in_number(raw: bytes, path: str) -> Iterator[EvidenceRemark]:
    if raw.lstrip(b"-").isdigit():
        return  # an integer of any length, which float() may not hold
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        is_large = math.isinf(value) and b"Infinity" not in raw
        reason = "too large for a number with 64 bits" if is_large else "no number of JSON"
        yield EvidenceRemark(Kind.NUMBER, path, _beginning(raw), f"kept as it is: {reason}")


def _beginning(raw: bytes) -> str:
    return raw[:200].decode("utf-8", "replace")
