"""Spans of frameworks in which a value is of another kind than the framework writes: the reader goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from envelopes.recordings import find_format
from envelopes.recordings.base import SourceLine, SourcePath
from envelopes.recordings.otlp.span_lines import span_lines
from envelopes.recordings.otlp.spans import SpanEvent, TraceSpan, json_spans, parsed_text

RECORDINGS = sorted((Path(__file__).parent / "otlp").glob("*.jsonl"))
ODD = (None, True, 7, "fc_1", "", [], [[]], {}, {"type": {}, "id": []})


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to a value and to all values in it."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places_in(member, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], odd)
    return copy


class Change(NamedTuple):
    """One value in an attribute of a span, or of its event at `place`, becomes an odd one."""

    span: TraceSpan
    place: int | None
    name: str
    inner: tuple[Any, ...]
    odd: Any

    def make(self) -> TraceSpan:
        attributes = self.span.attributes if self.place is None else self.span.events[self.place].attributes
        written, content = attributes[self.name], content_of(attributes[self.name])
        changed = replaced(content, self.inner, self.odd)
        text = json.dumps(changed) if self.inner and isinstance(written, str) else changed
        new = attributes | {self.name: text}
        if self.place is None:
            return msgspec.structs.replace(self.span, attributes=new)
        events = list(self.span.events)
        events[self.place] = SpanEvent(events[self.place].name, new)
        return msgspec.structs.replace(self.span, events=tuple(events))


def content_of(written: Any) -> Any:
    value = parsed_text(written)
    return value if isinstance(value, (dict, list)) else written


def changes_of(path: Path) -> Iterator[Change]:
    """For each value of the spans of a recording, an attribute or a value in the JSON of one, each odd one."""
    for span in json_spans(json.loads(path.read_bytes())):
        owners = [(None, span.attributes), *((place, event.attributes) for place, event in enumerate(span.events))]
        for place, attributes in owners:
            for name, written in attributes.items():
                for inner, odd in product(places_in(content_of(written)), ODD):
                    yield Change(span, place, name, inner, odd)


def test_no_value_in_a_span_of_a_framework_stops_the_reader() -> None:
    """Of each recording one change in 50: the extended test tries them all."""
    for path in RECORDINGS:
        for change in islice(changes_of(path), 0, None, 50):
            read_all(change.make())


@pytest.mark.extended
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_no_value_in_any_span_of_a_framework_stops_the_reader(path: Path) -> None:
    for change in changes_of(path):
        read_all(change.make())


def read_all(span: TraceSpan) -> None:
    for line in span_lines([span]):
        list(find_format("otlp").read([SourceLine(1, 0, line.raw)], SourcePath("traces.jsonl"), {}))
