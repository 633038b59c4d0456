"""Values of a trace request in JSON that its types do not allow: protobuf has none, exporters by hand write some.

A span that is left out is a problem, and counts as rejected where it was sent. Of a value it is a remark on a run.

odd_records(document, …)    remarks and problems of a request in a file
odd_lines(document, run)    lines of ours for a request that was sent, which `read_odd_line` reads
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from envelopes.recordings.base import LineProblem, RemarkKind, RemarkRecord
from envelopes.recordings.json_lines import remark
from envelopes.recordings.otlp.spans import TraceLine, has_lost_attributes, is_odd_value, nanoseconds, trace_line
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

KINDS: dict[object, RemarkKind] = {"value": "value", "timestamp": "timestamp"}


class OddValue(NamedTuple):
    """A value of a request in JSON that `json_spans` leaves out. `is_span`: a span, or a list with all of its spans."""

    kind: RemarkKind
    path: str
    value: Any
    became: str
    is_span: bool = False


def odd_records(document: Any, number: int, shown: bytes, run: str) -> Iterator[RemarkRecord | LineProblem]:
    """Yields remarks on values that were left out of a request, and problems where no run has them, or for spans."""
    for odd in find_odd_values(document):
        if run and not odd.is_span:
            yield remark(odd.kind, odd.path, dump_json(odd.value), odd.became, line=number, run=run)
        else:
            yield LineProblem(line=number, path=odd.path, reason=odd.became, raw=shown, part=True)


def odd_lines(document: Any, run: str) -> Iterator[TraceLine]:
    """A line for each of these values of a request that was sent. `run` is empty where no span of it was read."""
    for odd in find_odd_values(document):
        kind, path, value, became, is_span = odd
        members = {"otlp": "odd", "run": "" if is_span else run, "kind": kind, "path": path, "value": value}
        members["became"] = became
        yield trace_line({name: dump_json(value) for name, value in members.items()})


def read_odd_line(members: Mapping[str, bytes], line: int) -> RemarkRecord:
    """The remark of such a line; its path is that in the request. Raises Untrusted where no run could have it."""
    path, became, run, kind = (parse_json(members.get(name, b"0")) for name in ("path", "became", "run", "kind"))
    if not (isinstance(path, str) and isinstance(became, str) and kind in KINDS):
        raise Untrusted("not a known kind of remark", "$.kind")
    if not isinstance(run, str) or not run:
        raise Untrusted(became, path)
    return remark(KINDS[kind], path, members.get("value", b"null"), became, line=line, run=run)


def find_odd_values(document: Any) -> Iterator[OddValue]:
    """Yields what is no object in the lists of a request, and the ids, times and numbers that are none."""
    for path, resource in _listed(document, "resourceSpans", "$"):
        yield from _odd_object(resource, path, is_span=True)
        owner = resource.get("resource", {}) if isinstance(resource, dict) else {}
        yield from _odd_object(owner, f"{path}.resource")
        yield from _odd_attributes(owner, f"{path}.resource")
        for scope_path, scoped in _listed(resource, "scopeSpans", path):
            yield from _odd_object(scoped, scope_path, is_span=True)
            for span_path, span in _listed(scoped, "spans", scope_path):
                yield from _odd_span(span, span_path)


def _listed(owner: Any, name: str, path: str) -> Iterator[tuple[str, Any]]:
    """The elements of a list with their paths; of another value that value."""
    values = owner.get(name) if isinstance(owner, dict) else None
    if isinstance(values, list):
        yield from ((f"{path}.{name}[{index}]", value) for index, value in enumerate(values))
    elif values is not None:
        yield f"{path}.{name}", values if not isinstance(values, dict) else [values]


def _odd_object(value: Any, path: str, *, is_span: bool = False) -> Iterator[OddValue]:
    if not isinstance(value, dict):
        yield OddValue("value", path, value, "left out: wrong type", is_span)


def _odd_span(span: Any, path: str) -> Iterator[OddValue]:
    yield from _odd_object(span, path, is_span=True)
    if isinstance(span, dict) and has_lost_attributes(span):
        became = "the span is left out: none of its attributes can be read"
        yield OddValue("value", f"{path}.attributes", span["attributes"], became, is_span=True)
        return
    for name in ("traceId", "spanId", "parentSpanId", "name") if isinstance(span, dict) else ():
        if not isinstance(span.get(name, ""), str | None):
            yield OddValue("value", f"{path}.{name}", span[name], "left out: wrong type")
    for name in ("startTimeUnixNano", "endTimeUnixNano") if isinstance(span, dict) else ():
        if span.get(name) not in (None, 0, "0", "") and not nanoseconds(span[name]):
            yield OddValue("timestamp", f"{path}.{name}", span[name], "left out: no time")
    yield from _odd_attributes(span, path)


def _odd_attributes(owner: Any, path: str) -> Iterator[OddValue]:
    for pair_path, pair in _listed(owner, "attributes", path):
        yield from _odd_object(pair, pair_path)
        fields = pair if isinstance(pair, dict) else {}
        if not isinstance(fields.get("key", ""), str | None):
            yield OddValue("value", f"{pair_path}.key", fields["key"], "left out: wrong type")
        if is_odd_value(fields.get("value")):
            yield OddValue("value", f"{pair_path}.value", fields["value"], "left out: wrong type")
