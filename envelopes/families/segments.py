"""Builds the segments of receipts from the fields of a canonical result, and keeps them within their policy.

Each function gives one segment or the segments of a few lines; every character of a value keeps the pointer and the
range of the field that it comes from. `receipt_renderer` makes a renderer of a function that writes the body.

`fit` keeps a receipt within its policy; every shortening states what was shown of how much (RFC-100). Previews are
shortened first, the longest before the others; when that is not enough the end is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Renderer, Role, Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import join, resolve
from envelopes.text.preview import CutPreview, count_fitting_lines, find_cut, head_tail, split_lines

MARKER_ROOM = 120  # characters for the statement of a cut
SMALLEST_PREVIEW = 200
INLINE_CHARACTERS = 200  # a longer string gets a block of its own, which can be shortened
_PHRASE = re.compile(r"(\{[\w/]+\}|\n+)")


def receipt_renderer(
    body: Callable[[CanonicalResult], Iterable[Segment]],
    *,
    tail: Callable[[CanonicalResult], Iterable[Segment]] | None = None,
    details: tuple[tuple[str, str], ...] = (),
) -> Renderer:
    """A renderer that writes `body` for a success and the error receipt for an error, both within the policy.

    `tail` and the artifacts stay whole however short the body has to be. `details` are the members of
    the error's details that this family names, each with its title.
    """

    def render(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
        if canonical.error is not None:
            return fit(error_receipt(canonical, details), policy, tail=artifact_lines(canonical))
        last = () if tail is None else tail(canonical)
        return fit(body(canonical), policy, tail=(*last, *artifact_lines(canonical)))

    return render


def headline(text: str, pointer: str = "/summary_text") -> Segment:
    """The first line of a receipt: the outcome (RFC-128)."""
    return Segment(text, "headline", SegmentSource("canonical", pointer))


def label(text: str) -> Segment:
    """Words of the renderer's own."""
    return Segment(text, "label")


def marker(text: str) -> Segment:
    """A statement of what was left out."""
    return Segment(text, "marker")


def line_break(count: int = 1) -> Segment:
    return Segment("\n" * count, "break")


def value(canonical: CanonicalResult, pointer: str, text: str | None = None) -> Segment:
    """The field at `pointer`; with `text` for a renderer that words it in its own way."""
    if text is None:
        field = _field(canonical, pointer)
        if isinstance(field, str):
            return text_value(field, pointer)
        text = "" if field is None else msgspec.json.encode(field).decode()
    return Segment(text, "value", SegmentSource("canonical", pointer))


def text_value(text: str, pointer: str, start: int = 0, *, role: Role = "value") -> Segment:
    """`text` as characters of the canonical string at `pointer`, from `start`; for a caller that has the string."""
    return Segment(text, role, SegmentSource("canonical", pointer, start, start + len(text)))


def preview(canonical: CanonicalResult, pointer: str) -> Segment:
    """A large text field, verbatim."""
    return text_value(_string(canonical, pointer), pointer, role="preview")


def phrase(canonical: CanonicalResult, words: str, pointer: str = "/result") -> Iterable[Segment]:
    r"""Labels, with the field `<pointer>/name` in place of `{name}`: `phrase(canonical, "\n[{index}] {cmd}", …)`."""
    for part in _split_phrase(words):
        if part.startswith("{"):
            yield value(canonical, f"{pointer}/{part[1:-1]}")
        elif part.startswith("\n"):
            yield line_break(len(part))
        elif part:
            yield label(part)


def item_phrase(item: RecordedObject, pointer: str, words: str) -> Iterable[Segment]:
    """A `phrase` of the fields of `item`, which the caller has read from `pointer`. Missing fields are empty."""
    for part in _split_phrase(words):
        if part.startswith("\n"):
            yield line_break(len(part))
        elif not part.startswith("{"):
            yield from [label(part)] if part else []
        elif (number := item.number(part[1:-1])) is not None:
            yield Segment(str(number), "value", SegmentSource("canonical", f"{pointer}/{part[1:-1]}"))
        else:
            yield text_value(item.text(part[1:-1]) or "", f"{pointer}/{part[1:-1]}")


@lru_cache(256)
def _split_phrase(words: str) -> list[str]:
    return _PHRASE.split(words)


def marked_values(record: RecordedObject, pointer: str, marks: Iterable[tuple[str, str]]) -> Iterable[Segment]:
    """The texts that `record`, the object at `pointer`, has under these names; before each the mark beside its name."""
    for mark, name in marks:
        if text := record.text(name):
            if mark:
                yield label(mark)
            yield text_value(text, f"{pointer}/{name}")


def member_line(canonical: CanonicalResult, title: str, pointer: str) -> Iterable[Segment]:
    """`title: value` on a line of its own; nothing when the field is missing or empty."""
    field = _field(canonical, pointer)
    if field is None or field == "":
        return
    yield line_break()
    yield label(f"{title}: ")
    yield text_value(field, pointer) if isinstance(field, str) else value(canonical, pointer, scalar_text(field))


def member_lines(
    canonical: CanonicalResult, titles: Iterable[tuple[str, str]], pointer: str = "/result"
) -> Iterable[Segment]:
    """A `member_line` for each title and the name of its field below `pointer`."""
    for title, name in titles:
        yield from member_line(canonical, title, f"{pointer}/{name}")


def text_block(canonical: CanonicalResult, pointer: str, title: str = "") -> Iterable[Segment]:
    """A blank line, the title, and a large text; nothing when it is blank or is the headline already (RFC-107)."""
    if _string(canonical, pointer).strip() in ("", canonical.summary_text):
        return
    yield line_break(2)
    if title:
        yield label(f"{title}:\n")
    yield preview(canonical, pointer)


def item_lines(
    canonical: CanonicalResult, pointer: str, item: Callable[[JsonValue, str], Iterable[Segment]]
) -> Iterable[Segment]:
    """`item(element, its pointer)` on a line each, and how many the projection left out."""
    elements = _field(canonical, pointer)
    for index, element in enumerate(elements if isinstance(elements, list) else ()):
        yield line_break()
        yield from item(element, join(pointer, index))
    yield from omitted_line(canonical, pointer)


def omitted_line(canonical: CanonicalResult, pointer: str) -> Iterable[Segment]:
    """How many items of the list at `pointer` the projection left out; nothing when it left none out."""
    omitted = _field(canonical, f"{pointer}_omitted")
    if isinstance(omitted, int):
        elements = _field(canonical, pointer)
        shown = len(elements) if isinstance(elements, list) else 0
        yield line_break()
        yield marker(f"[showing first {shown} of {shown + omitted}]")


def field_segment(field: JsonValue, pointer: str, role: Role = "value") -> Segment:
    """The string at `pointer` of the envelope, verbatim; any other scalar as JSON writes it."""
    if isinstance(field, str):
        return text_value(field, pointer, role=role)
    return Segment(scalar_text(field), role, SegmentSource("canonical", pointer))


def is_block(field: JsonValue) -> bool:
    return isinstance(field, str) and ("\n" in field or len(field) > INLINE_CHARACTERS)


def result_or_error(canonical: CanonicalResult) -> tuple[str, JsonValue]:
    """The name and the value of the result or of the error; an error without its empty fields."""
    if canonical.error is None:
        return "result", canonical.result
    fields = msgspec.structs.asdict(canonical.error)
    return "error", {name: value for name, value in fields.items() if value is not None}


def artifact_paths(canonical: CanonicalResult) -> Iterator[Segment]:
    for index, artifact in enumerate(canonical.artifacts):
        yield field_segment(artifact.path, f"/artifacts/{index}/path")


def indented(text: str, pointer: str, indent: str = "   ") -> Iterable[Segment]:
    """A whole string whose further lines are indented, so that none of them can pass for a line of the receipt."""
    start = 0
    for index, line in enumerate(text.split("\n")):
        if index:
            yield line_break()
            yield label(indent)
        yield text_value(line, pointer, start)
        start += len(line) + 1


def artifact_lines(canonical: CanonicalResult) -> Iterable[Segment]:
    """`Artifacts:` and one path a line; nothing when there are none (RFC-129).

    Before them, where the result as a whole passed the ceiling, how much of it there is.
    """
    if not canonical.artifacts:
        return
    yield from shortened_line(canonical)
    yield line_break()
    yield label("Artifacts:")
    for index in range(len(canonical.artifacts)):
        yield line_break()
        yield value(canonical, f"/artifacts/{index}/path")


def shortened_line(canonical: CanonicalResult) -> Iterable[Segment]:
    """How large the whole result is and where it was saved, when it passed the ceiling."""
    halves = (("result", "/result"), ("error", "/error/details")) if canonical.artifacts else ()
    for half, pointer in halves:
        size = _field(canonical, f"{pointer}/{half}_characters")
        index = _field(canonical, f"{pointer}/{half}_artifact")
        if isinstance(size, int) and isinstance(index, int) and 0 <= index < len(canonical.artifacts):
            path = canonical.artifacts[index].path
            yield line_break()
            yield marker(f"[{half} shortened: all {size} characters are in {path}]")


def render_stub(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    """Renders a result of which the ceiling left nothing: a family would take it for an empty one."""
    return fit([headline(canonical.summary_text)], policy, tail=artifact_lines(canonical))


def error_receipt(
    canonical: CanonicalResult,
    details: tuple[tuple[str, str], ...] = (),
    message: Callable[[str], Iterable[Segment]] | None = None,
) -> Iterable[Segment]:
    """Outcome, kind, the details that the family names, hint, retryable. Raises ValueError for a success.

    `message` writes the error's message, for a family that bounds it.
    """
    error = canonical.error
    if error is None:
        raise ValueError("error_receipt needs an envelope with an error")
    yield from phrase(canonical, "{tool_name} failed: ", "")
    yield from message(error.message) if message else [text_value(error.message, "/error/message", role="headline")]
    yield from phrase(canonical, "\nKind: {kind}", "/error")
    yield from member_lines(canonical, details, "/error/details")
    yield from reason_line(canonical)
    if error.recovery_hint:
        yield line_break()
        yield label("Hint: ")
        yield text_value(error.recovery_hint, "/error/recovery_hint", role="hint")
    yield line_break()
    yield label("Retryable: ")
    yield value(canonical, "/error/retryable", "yes" if error.retryable else "no")


def reason_line(canonical: CanonicalResult) -> Iterable[Segment]:
    """The reason that the RFC's `invalid_tool_input` keeps in its details, unless the message has it as well."""
    reason = _string(canonical, "/error/details/parse_error")
    if canonical.error is not None and reason and reason not in canonical.error.message:
        yield from member_line(canonical, "Reason", "/error/details/parse_error")


def fit(body: Iterable[Segment], policy: RenderPolicy, *, tail: Iterable[Segment] = ()) -> list[Segment]:
    """`body` then `tail` within the policy. `tail` (paths, identifiers) stays whole unless it takes half."""
    segments, last = list(body), list(tail)
    behind = _length(last)
    if _length(segments) + behind <= policy.characters:
        return [*segments, *last]
    if behind > policy.characters // 2:
        segments, last, behind = [*segments, *last], [], 0
    return [*_shorten(segments, policy.characters - behind, policy), *last]


def cut_segment(segment: Segment, budget: int, policy: RenderPolicy) -> list[Segment]:
    """Head and tail of a text with the cut stated between them; at most `budget` characters besides that.

    Of a preview that the projection cut already, the new cut takes the place of the old one and counts the whole.
    """
    text, before = segment.text, find_cut(segment.text)
    if before is None:
        shorter = head_tail(text, budget, head_share=policy.head_share, unit=policy.cut_at)
        if shorter.cut is None:
            return [segment]
        head, tail = len(shorter.head), len(text) - len(shorter.tail)
        first, last = shorter.cut.ends
        of = f"{first} and last {last} of {shorter.cut.total} {shorter.cut.unit}"
    else:
        head, tail, of = _cut_again(text, before, budget, policy)
    gap = "" if text[:head].endswith("\n") or not head else "\n"
    cut = f"[receipt shortened here: first {of}]"
    parts = [_slice(segment, 0, head), marker(f"{gap}...\n{cut}\n...\n"), _slice(segment, tail, len(text))]
    return [part for part in parts if part.text]


def _cut_again(text: str, before: CutPreview, budget: int, policy: RenderPolicy) -> tuple[int, int, str]:
    """The end of the head of a shorter preview, the start of its tail, and the words of the marker about both."""
    for_head = budget * policy.head_share // 100
    head_lines, tail_lines = split_lines(text[: before.head_end]), split_lines(text[before.tail_start :])
    first = count_fitting_lines(head_lines, for_head)
    last = count_fitting_lines(tail_lines[::-1], budget - for_head)
    if policy.cut_at == "lines" and before.unit == "lines" and first + last:
        head = sum(len(line) for line in head_lines[:first])
        tail = len(text) - sum(len(line) for line in tail_lines[len(tail_lines) - last :])
        return head, tail, f"{first} and last {last} of {before.total} lines"
    head = min(for_head, before.head_end)
    tail = max(len(text) - (budget - for_head), before.tail_start)
    ends = f"{head} and last {len(text) - tail}"
    whole = f"{ends} of {before.total} characters"
    return head, tail, whole if before.unit == "characters" else f"{ends} characters of {before.total} lines"


def _shorten(segments: list[Segment], room: int, policy: RenderPolicy) -> list[Segment]:
    previews = [segment for segment in segments if segment.role == "preview"]
    for longest in sorted(previews, key=lambda segment: -len(segment.text)):
        excess = _length(segments) - room
        if excess <= 0:
            break
        if (budget := len(longest.text) - excess - MARKER_ROOM) >= SMALLEST_PREVIEW:
            cut = cut_segment(longest, budget, policy)
            segments = [part for segment in segments for part in (cut if segment is longest else [segment])]
    return segments if _length(segments) <= room else _clip(segments, room)


def _clip(segments: Sequence[Segment], room: int) -> list[Segment]:
    text = "".join(segment.text for segment in segments)
    if room <= MARKER_ROOM:
        return [*_first(segments, max(0, room - 1)), marker("…"[:room])] if room > 0 else []
    limit = room - MARKER_ROOM
    line_end = text.rfind("\n", 0, limit)
    limit = line_end if line_end > limit // 2 else limit
    return [*_first(segments, limit), marker(f"\n[receipt cut: first {limit} of {len(text)} characters]")]


def _first(segments: Sequence[Segment], characters: int) -> list[Segment]:
    first: list[Segment] = []
    for segment in segments:
        if characters <= 0:
            break
        first.append(segment if len(segment.text) <= characters else _slice(segment, 0, characters))
        characters -= len(segment.text)
    return first


def _slice(segment: Segment, start: int, end: int) -> Segment:
    source = segment.source
    if source is not None and source.start is not None:
        source = SegmentSource(source.document, source.pointer, source.start + start, source.start + end)
    return msgspec.structs.replace(segment, text=segment.text[start:end], source=source)


def _length(segments: Iterable[Segment]) -> int:
    return sum([len(segment.text) for segment in segments])


def _string(canonical: CanonicalResult, pointer: str) -> str:
    """The text at `pointer`; empty when there is none."""
    field = _field(canonical, pointer)
    return field if isinstance(field, str) else ""


def _field(canonical: CanonicalResult, pointer: str) -> JsonValue:
    try:
        return resolve(canonical.to_json(), pointer)
    except KeyError:
        return None
